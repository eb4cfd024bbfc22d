"""Collects what helps to find a fault of an installation: versions, states, events and logs, without secrets.

No Secret and no ConfigMap is read. Everything else passes the redaction of secrets that the agents use for their logs.
What cannot be read, and what is left out on purpose, is named.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from typing import Any, Final

import click

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.inspection.installations import installation_documents, list_problems, read_installations
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, kubectl_run, place_options

Object = Mapping[str, Any]
_KINDS: Final = {names.AGENT: "agents", names.MCP_SERVER: "mcpservers", names.SKILL: "skills"}
_OF_INSTALLATION: Final = "app.kubernetes.io/name=fleetwright-operator"
_OF_AGENTS: Final = f"{names.OWN_OBJECTS},{names.COMPONENT}=agent"
_AGENT_CONTAINER: Final = "agent"
_METADATA: Final = ("name", "namespace", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")
_CHILDREN: Final = frozenset({"Pod", "ReplicaSet", "Deployment", "PersistentVolumeClaim", "Service"})
_MOST_LINES: Final = 5_000
_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_LOGS: Final = 200
_AT_ONCE: Final = 8
_SECONDS: Final = 120.0
LEFT_OUT: Final = (
    "Secrets and ConfigMaps: the command does not read them",
    "the specs of objects, which contain instructions and addresses: add those that matter by hand",
    "Approvals, which contain the arguments of tool calls",
    "messages, tasks and memory of agents: their logs have none of them",
    "the logs of McpServers, workspaces, egress proxies and of containers beside an agent",
)


@dataclass(slots=True)
class SupportReport:
    files: dict[str, bytes] = field(default_factory=dict)
    """The content of each file by its path in the archive."""
    left_out: list[str] = field(default_factory=list)
    """What could not be read or is not complete, as sentences."""


async def collect_report(
    cluster: ClusterClient, *, everywhere: bool, since: str, now: datetime, kubectl: str = "kubectl"
) -> SupportReport:
    """Return the report about a namespace, or about all of them, and about the installations of the cluster.

    Args:
        cluster: The cluster and the namespace.
        everywhere: True for all namespaces.
        since: The age of the oldest log lines, as a duration of kubectl such as 24h.
        now: The present time.
        kubectl: The program to run.

    Raises: TransportError: kubectl is missing.
    """
    collector = _Collector(cluster, everywhere=everywhere, since=since, now=now, kubectl=kubectl)
    await collector.collect()
    return collector.report


class _Collector:
    def __init__(self, cluster: ClusterClient, *, everywhere: bool, since: str, now: datetime, kubectl: str) -> None:
        self.report = SupportReport()
        self._cluster = cluster
        self._scope = ("--all-namespaces",) if everywhere else ()
        self._since = since
        self._now = now
        self._kubectl = kubectl
        self._place = place_options(cluster.context, cluster.namespace)
        self._redact = Redactor()

    async def collect(self) -> None:
        await self._collect_versions()
        self._collect_installations()
        owned = [await self._collect_objects(kind, plural) for kind, plural in _KINDS.items()]
        agents = await self._list("the pods of agents", "pods", *self._scope, "-l", _OF_AGENTS)
        system = await self._list("the pods of the installation", "pods", "--all-namespaces", "-l", _OF_INSTALLATION)
        self._add_json("pods.json", [_describe_pod(pod) for pod in (*system, *agents)])
        await self._collect_events({name for found in owned for name in found}, system)
        await self._collect_logs([(pod, _containers(pod)) for pod in system])
        await self._collect_logs([(pod, [_AGENT_CONTAINER]) for pod in agents])
        self._add_text("README.txt", self._describe())

    async def _collect_versions(self) -> None:
        found: dict[str, Any] = {"fleetwright": version("fleetwright")}
        try:
            found["kubernetes"] = await kubectl_json(self._kubectl, (*self._place, "version"))
        except AgentUnreachable as error:
            self.report.left_out.append(f"the versions of Kubernetes: {error}")
        self._add_json("versions.json", found)

    def _collect_installations(self) -> None:
        try:
            found = read_installations(self._cluster, now=self._now)
        except click.ClickException as error:
            self.report.left_out.append(f"the installations: {error.message}")
            return
        self._add_json(
            "status.json", {"installations": installation_documents(found), "problems": list_problems(found)}
        )

    async def _collect_objects(self, kind: str, plural: str) -> list[str]:
        """Add the status of all objects of a kind. Return their names."""
        found = await self._list(f"the {kind} objects", f"{plural}.{names.GROUP}", *self._scope)
        self._add_json(f"objects/{plural}.json", [_describe_object(body) for body in found])
        return [str(body["metadata"]["name"]) for body in found]

    async def _collect_events(self, owners: set[str], system: Sequence[Object]) -> None:
        """Add the Events of our objects, of their children and of the pods of the installation."""
        pods = {str(pod["metadata"]["name"]) for pod in system}
        namespaces = sorted({str(pod["metadata"]["namespace"]) for pod in system})
        found = await self._list("the Events", "events", *self._scope)
        if not self._scope:
            for namespace in namespaces:
                if namespace != self._cluster.namespace:
                    found += await self._list(f"the Events of {namespace}", "events", "--namespace", namespace)
        kept = [event for event in found if _concerns(event.get("involvedObject") or {}, owners, pods)]
        self._add_json("events.json", [_describe_event(event) for event in kept])

    async def _collect_logs(self, wanted: Sequence[tuple[Object, Sequence[str]]]) -> None:
        logs = [
            (pod, container, previous)
            for pod, containers in wanted
            for container in containers
            for previous in ((False, True) if _has_restarted(pod, container) else (False,))
        ]
        for pod, container, _ in logs[_MOST_LOGS:]:
            self.report.left_out.append(f"the log of {_log_name(pod, container)}: more than {_MOST_LOGS} logs")
        free = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._collect_log(*each, free) for each in logs[:_MOST_LOGS]))

    async def _collect_log(self, pod: Object, container: str, previous: bool, free: asyncio.Semaphore) -> None:
        metadata, name = pod["metadata"], _log_name(pod, container, previous=previous)
        options = (f"--since={self._since}", f"--tail={_MOST_LINES}", *(("--previous",) if previous else ()))
        words = (*self._place, "--namespace", metadata["namespace"], "logs", metadata["name"], "-c", container)
        try:
            async with free:
                ended = await kubectl_run(self._kubectl, (*words, *options), seconds=_SECONDS)
        except AgentUnreachable as error:
            self.report.left_out.append(f"the log of {name}: {error}")
            return
        if ended.code:
            self.report.left_out.append(f"the log of {name}: {ended.reason}")
            return
        lines = ended.output[-_MOST_BYTES:].decode(errors="replace").splitlines()
        if len(ended.output) > _MOST_BYTES or len(lines) >= _MOST_LINES:
            self.report.left_out.append(f"the log of {name}: lines before the last {len(lines)}")
        self._add_text(f"logs/{name}.log", redact_log(lines, self._redact))

    async def _list(self, what: str, *words: str) -> list[Object]:
        """Return the items of a list, or nothing if it cannot be read. Raises: TransportError: kubectl is missing."""
        try:
            found = await kubectl_json(self._kubectl, (*self._place, "get", *words))
        except AgentUnreachable as error:
            self.report.left_out.append(f"{what}: {error}")
            return []
        return [each for each in found.get("items") or () if isinstance(each, Mapping)]

    def _add_json(self, path: str, document: Any) -> None:
        self._add_text(path, json.dumps(self._redact(document), indent=2, ensure_ascii=False) + "\n")

    def _add_text(self, path: str, text: str) -> None:
        self.report.files[path] = text.encode(errors="replace")

    def _describe(self) -> str:
        where = "all namespaces" if self._scope else f"namespace {self._cluster.namespace}"
        lines = [
            f"Support report of Fleetwright, {self._now:%Y-%m-%dT%H:%M:%SZ}, {where}, logs of the last {self._since}.",
            "Secrets were replaced by their format and by the names of fields. Read the files before you send them.",
            "",
            *_bulleted("Left out on purpose:", LEFT_OUT),
            *_bulleted("Not read, or not complete:", self.report.left_out or ["nothing"]),
        ]
        return "\n".join(lines)


def redact_log(lines: Iterable[str], redact: Redactor) -> str:
    """Return the lines of a log without secrets. Pure but for the mounted files of `redact`.

    A line of JSON is redacted by its fields. Other lines are redacted together, because a secret such as a private key
    may have several lines.
    """
    parts: list[str] = []
    for is_object, group in groupby(map(_parse, lines), key=lambda parsed: parsed[0] is not None):
        if is_object:
            parts += [json.dumps(redact(fields), ensure_ascii=False) for fields, _ in group]
        else:
            parts.append(redact.text("\n".join(text for _, text in group)))
    return "\n".join([*parts, ""]) if parts else ""


def _parse(line: str) -> tuple[dict[str, Any] | None, str]:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    return (fields if isinstance(fields, dict) else None), line


def _bulleted(title: str, items: Iterable[str]) -> list[str]:
    return [title, *(f"- {item}" for item in items), ""]


def _describe_object(body: Object) -> dict[str, Any]:
    metadata = {key: body["metadata"][key] for key in _METADATA if key in body["metadata"]}
    return {"metadata": metadata, "status": body.get("status") or {}}


def _describe_pod(body: Object) -> dict[str, Any]:
    placed, status = body.get("spec") or {}, body.get("status") or {}
    kept = ("phase", "reason", "message", "startTime", "conditions", "containerStatuses", "initContainerStatuses")
    shown = {key: status[key] for key in kept if key in status}
    return {**_describe_object(body), "node": placed.get("nodeName"), "status": shown}


def _describe_event(event: Object) -> dict[str, Any]:
    involved = event.get("involvedObject") or {}
    kept = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime")
    about = {key: involved[key] for key in ("kind", "namespace", "name") if key in involved}
    return {"object": about, **{key: event[key] for key in kept if event.get(key) is not None}}


def _concerns(involved: Object, owners: set[str], pods: set[str]) -> bool:
    """Return whether an Event is about one of our objects, one of their children, or a pod of the installation."""
    kind, name = str(involved.get("kind")), str(involved.get("name"))
    if kind in _KINDS or (kind == "Pod" and name in pods):
        return True
    return kind in _CHILDREN and any(name == owner or name.startswith(f"{owner}-") for owner in owners)


def _containers(body: Object) -> list[str]:
    return [str(each["name"]) for each in (body.get("spec") or {}).get("containers") or ()]


def _has_restarted(pod: Object, container: str) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any(each.get("name") == container and each.get("restartCount") for each in statuses)


def _log_name(pod: Object, container: str, *, previous: bool = False) -> str:
    metadata = pod["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}.{container}{'.previous' if previous else ''}"
