"""Explains why an agent with `spec.sleep` does not sleep, from its objects and from the status page of its pod."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
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
    """Return why an agent with `spec.sleep` does not sleep, or that it sleeps, each with the reason.

    The list is empty if the agent cannot sleep: without `spec.sleep`, or while it or a lead of its team is suspended.
    """
    spec, status = parse_agent(agent).spec, agent.get("status") or {}
    if spec.sleep is None or spec.suspend or status.get("phase") == "Suspended":
        return []
    return asyncio.run(_explain(cluster, agent, after_idle=durations.seconds(spec.sleep.after_idle), now=now))


async def _explain(cluster: ClusterClient, agent: Object, *, after_idle: int, now: datetime) -> list[tuple[str, str]]:
    status, place = agent.get("status") or {}, place_options(cluster.context, cluster.namespace)
    since = str((status.get("sleep") or {}).get("since") or "")
    asleep = [(f"asleep since {since}", "a message through the gateway wakes it")]
    blocked = list(_unmet_conditions(status))
    if status.get("phase") == "Asleep":
        return asleep
    if blocked and not since:
        return blocked
    selector = f"{names.AGENT_LABEL}={agent['metadata']['name']}"
    try:
        pods = await kubectl_json("kubectl", (*place, "get", "pods", "-l", selector))
    except TransportError as error:
        return blocked or [("does not sleep for an unknown reason", f"its pods cannot be read: {error}")]
    # The phase of an agent that sleeps and whose spec cannot be applied is not Asleep.
    if since and not any("deletionTimestamp" not in pod["metadata"] for pod in pods.get("items") or ()):
        return asleep
    if blocked:
        return blocked
    decided, pod = _undelivered_decisions(cluster, agent), ready_pod(pods)
    if pod is None:
        return [*decided, ("does not sleep because no pod of it is ready", "only an agent that is ready goes to sleep")]
    try:
        activity = await read_activity(place, pod, now=now)
    except TransportError as error:
        return [*decided, ("awake for an unknown reason", f"the status page of its pod cannot be read: {error}")]
    return decided + explain_activity(activity, after_idle=after_idle)


def explain_activity(activity: Activity | None, *, after_idle: int) -> list[tuple[str, str]]:
    """Return what in the report of an agent keeps it awake. Pure.

    Args:
        activity: None if the agent reports none.
        after_idle: `spec.sleep.afterIdle` in seconds.
    """
    if activity is None:
        return [("awake because it reports no activity", "an agent sleeps only if its status page has `activity`")]
    obstacles = find_sleep_obstacles(activity, after_idle=after_idle, now=activity.read_at)
    found = [(f"awake because {state}", rule) for state, rule in obstacles]
    return found or [
        (
            "awake because the operator has not decided yet",
            "it reads the activity once a minute, and waits for the Approvals of open questions",
        )
    ]


async def read_activity(place: Sequence[str], pod: str, *, now: datetime) -> Activity | None:
    """Return the activity of a running agent; None if it reports none.

    Args:
        place: The options of kubectl that select the cluster and the namespace.
        pod: The name of the pod.
        now: The time of reading if the pod does not send its own. Only its own clock fits the times of its report.

    Raises: TransportError.
    """
    tunnel = PodTunnel()
    try:
        port = await tunnel.open(place, pod, names.OPS_PORT)
        page = await read_page(f"http://127.0.0.1:{port}/status")
    finally:
        await tunnel.close()
    read_at = int(now.timestamp()) if page.date is None else page.date
    return parse_activity(page.document.get("activity"), read_at=read_at, parse_time=parse_timestamp)


@dataclass(frozen=True, slots=True)
class StatusPage:
    """The answer to a request for the status page."""

    document: Object
    date: int | None
    """The clock of the server in seconds since the epoch, by the header Date (RFC 9110 §6.6.1)."""


async def read_page(url: str, *, seconds: float = _SECONDS) -> StatusPage:
    """Read a status page of at most 64 KiB, which is untrusted.

    Args: `seconds` limit the whole answer.

    Raises: AgentUnreachable: There is no such page. The message is the reason.
    """
    try:
        async with (
            asyncio.timeout(seconds),
            httpx.AsyncClient(timeout=seconds, trust_env=False) as http,
            http.stream("GET", url) as response,
        ):
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _MOST_BYTES:
                    break
    except TimeoutError:
        raise AgentUnreachable(f"no complete answer within {seconds:g} s") from None
    except httpx.RequestError as error:
        raise AgentUnreachable(f"no usable answer: {str(error) or type(error).__name__}") from None
    try:
        document = read_json(body) if response.is_success and len(body) <= _MOST_BYTES else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise AgentUnreachable("its answer is not a JSON object of at most 64 KiB")
    return StatusPage(document, _parse_date(response.headers.get("date", "")))


def _parse_date(text: str) -> int | None:
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError):
        return None


def _unmet_conditions(status: Object) -> Iterator[tuple[str, str]]:
    """Yield the conditions without which an agent does not go to sleep."""
    known = {each["type"]: each for each in status.get("conditions") or ()}
    for kind in _STAGES:
        if kind in known and known[kind]["status"] != "True":
            found = known[kind]
            yield (
                f"does not sleep because {kind} is {found['status']} ({found['reason']})",
                str(found.get("message", "")),
            )


def _undelivered_decisions(cluster: ClusterClient, agent: Object) -> list[tuple[str, str]]:
    """Return the decided Approvals of the agent that it has not answered; none if they cannot be read."""
    uid = agent["metadata"].get("uid")
    try:
        found = cluster.list(names.APPROVAL)
    except click.ClickException:
        return []  # The user may not read Approvals. Everything else can still be explained.
    return [
        (
            f"does not sleep because the decision of Approval {body['metadata']['name']} is not delivered",
            "the operator keeps the agent awake until the decision is delivered",
        )
        for body in found
        if any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())
        and parse_approval(body).is_undelivered
    ]
