"""Explains why an agent with `spec.sleep` is awake, from its objects and from the status page of its pod."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import click
import httpx

from fleetwright_api import durations, names
from fleetwright_api.activity import Activity, find_sleep_obstacles, parse_activity
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.approval import parse_approval
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.cluster.tables import parse_timestamp
from fleetwright_cli.terminal.transport.cluster_agent import ready_pod
from fleetwright_cli.terminal.transport.errors import AgentUnreachable, TransportError
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, place_options
from fleetwright_cli.terminal.transport.pod_tunnel import PodTunnel

Object = Mapping[str, Any]
_SECONDS: Final = 10.0
_MOST_BYTES: Final = 64 * 1024
_STAGES: Final = ("Accepted", "ReferencesResolved", "Programmed", "Available")


def explain_sleep(cluster: ClusterClient, agent: Object, *, now: datetime) -> list[tuple[str, str]]:
    """Return what keeps an agent with `spec.sleep` awake, or that it sleeps, each with the reason."""
    spec, status = parse_agent(agent).spec, agent.get("status") or {}
    if spec.sleep is None or spec.suspend:
        return []
    if status.get("phase") == "Asleep":
        since = (status.get("sleep") or {}).get("since", "")
        return [(f"asleep since {since}", "a message through the gateway wakes it")]
    if blocked := list(_unmet_conditions(status)):
        return blocked
    decided = _undelivered_decisions(cluster, agent)
    try:
        activity = asyncio.run(read_activity(cluster, str(agent["metadata"]["name"]), now=now))
    except TransportError as error:
        return [*decided, ("awake for an unknown reason", f"the status page of its pod cannot be read: {error}")]
    return decided + explain_activity(activity, after_idle=durations.seconds(spec.sleep.after_idle), now=now)


def explain_activity(activity: Activity | None, *, after_idle: int, now: datetime) -> list[tuple[str, str]]:
    """Return what in the report of an agent keeps it awake. Pure.

    Args:
        activity: None if the agent reports none.
        after_idle: `spec.sleep.afterIdle` in seconds.
        now: The present time.
    """
    if activity is None:
        return [("awake because it reports no activity", "an agent sleeps only if its status page has `activity`")]
    obstacles = find_sleep_obstacles(activity, after_idle=after_idle, now=int(now.timestamp()))
    found = [(f"awake because {state}", rule) for state, rule in obstacles]
    return found or [
        (
            "awake because the operator has not decided yet",
            "it reads the activity once a minute, and waits for the Approvals of open questions",
        )
    ]


async def read_activity(cluster: ClusterClient, agent: str, *, now: datetime) -> Activity | None:
    """Return the activity of a running agent; None if it reports none. Raises: TransportError."""
    place = (*place_options(cluster.context, cluster.namespace),)
    pod = ready_pod(await kubectl_json("kubectl", (*place, "get", "pods", "-l", f"{names.AGENT_LABEL}={agent}")))
    if pod is None:
        raise AgentUnreachable(f"agent {agent} has no ready pod")
    tunnel = PodTunnel()
    try:
        port = await tunnel.open(place, pod, names.OPS_PORT)
        document = await _read_page(f"http://127.0.0.1:{port}/status")
    finally:
        await tunnel.close()
    return parse_activity(document.get("activity"), read_at=int(now.timestamp()), parse_time=parse_timestamp)


async def _read_page(url: str) -> Object:
    """Raises: AgentUnreachable."""
    document, body = None, b""
    try:
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http, http.stream("GET", url) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MOST_BYTES:
                    break
        if response.is_success:
            document = read_json(body)
    except httpx.TransportError as error:
        raise AgentUnreachable(f"no answer: {error}") from None
    except ValueError:
        pass  # The sentence below also covers a page that is not JSON.
    if not isinstance(document, dict):
        raise AgentUnreachable("its answer is not a JSON object of at most 64 KiB")
    return document


def _unmet_conditions(status: Object) -> Iterator[tuple[str, str]]:
    """Yield the conditions without which an agent does not go to sleep."""
    known = {each["type"]: each for each in status.get("conditions") or ()}
    for kind in _STAGES:
        if kind in known and known[kind]["status"] != "True":
            found = known[kind]
            yield f"awake because {kind} is {found['status']} ({found['reason']})", str(found.get("message", ""))


def _undelivered_decisions(cluster: ClusterClient, agent: Object) -> list[tuple[str, str]]:
    """Return the decided Approvals of the agent that it has not answered; none if they cannot be read."""
    uid = agent["metadata"].get("uid")
    try:
        found = cluster.list(names.APPROVAL)
    except click.ClickException:
        return []  # The user may not read Approvals. Everything else can still be explained.
    return [
        (
            f"awake because the decision of Approval {body['metadata']['name']} is not delivered",
            "the operator keeps the agent awake until the decision is delivered",
        )
        for body in found
        if any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())
        and parse_approval(body).is_undelivered
    ]
