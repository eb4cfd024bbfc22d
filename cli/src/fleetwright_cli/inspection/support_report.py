"""Collects what helps to find a fault of an installation: versions, states, events and logs.

The command reads no Secret and no ConfigMap. The redaction of secrets that agents use for their logs replaces text in
the format of a secret, and the values of fields with the name of a secret. An agent also replaces the values of its
mounted Secrets; the report cannot, because it does not read them. `README.txt` names what the report excludes on
purpose, and its gaps: what could not be read or is not complete.
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
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.inspection.installations import installation_documents, list_problems, read_installations
from fleetwright_cli.inspection.log_reading import (
    AGENT_CONTAINER,
    AGENT_PODS,
    LOGS_AT_ONCE,
    ContainerRun,
    list_container_runs,
    read_container_log,
)
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, place_options

Object = Mapping[str, Any]
_KINDS: Final = {names.AGENT: "agents", names.MCP_SERVER: "mcpservers", names.SKILL: "skills"}
_INSTALLATION_PODS: Final = "app.kubernetes.io/name=fleetwright-operator"
_METADATA: Final = ("name", "namespace", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")
_CHILDREN: Final = frozenset({"Pod", "ReplicaSet", "Deployment", "PersistentVolumeClaim", "Service"})
_MOST_LINES: Final = 5_000
_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_LOGS: Final = 200
EXCLUSIONS: Final = (
    "Secrets and ConfigMaps: the command does not read them",
    "the specs of objects, which contain instructions and addresses: add those that matter by hand",
    "Approvals, which contain the arguments of tool calls",
    (
        "the messages and the memory of agents, and the arguments and results of tools. The logs name tasks, tools and"
        " costs, and contain error messages of model providers"
    ),
    "the logs of McpServers, workspaces, egress proxies and of containers beside an agent",
)


@dataclass(slots=True)
class SupportReport:
    files: dict[str, bytes] = field(default_factory=dict)
    """The content of each file by its path in the archive."""
    gaps: list[str] = field(default_factory=list)
    """What could not be read or is not complete, and why, without secrets."""


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
        agents = await self._list_objects("the pods of agents", "pods", *self._scope, "-l", AGENT_PODS)
        system = await self._list_objects(
            "the pods of the installation", "pods", "--all-namespaces", "-l", _INSTALLATION_PODS
        )
        self._add_json("pods.json", [_describe_pod(pod) for pod in (*system, *agents)])
        await self._collect_events({name for found in owned for name in found}, system)
        containers = [(pod, name) for pod in system for name in _container_names(pod)]
        containers += [(pod, AGENT_CONTAINER) for pod in agents]
        await self._collect_logs([run for pod, name in containers for run in list_container_runs(pod, name)])
        self._add_text("README.txt", self._build_readme())

    async def _collect_versions(self) -> None:
        found: dict[str, Any] = {"fleetwright": version("fleetwright")}
        try:
            found["kubernetes"] = await kubectl_json(self._kubectl, (*self._place, "version"))
        except AgentUnreachable as error:
            self._add_gap(f"the versions of Kubernetes: {error}")
        self._add_json("versions.json", found)

    def _collect_installations(self) -> None:
        try:
            found = read_installations(self._cluster, now=self._now)
        except click.ClickException as error:
            self._add_gap(f"the installations: {error.message}")
            return
        self._add_json(
            "status.json", {"installations": installation_documents(found), "problems": list_problems(found)}
        )

    async def _collect_objects(self, kind: str, plural: str) -> list[str]:
        """Add the status of all objects of a kind. Return their names."""
        found = await self._list_objects(f"the {kind} objects", f"{plural}.{names.GROUP}", *self._scope)
        self._add_json(f"objects/{plural}.json", [_describe_object(body) for body in found])
        return [str(body["metadata"]["name"]) for body in found]

    async def _collect_events(self, owners: set[str], system: Sequence[Object]) -> None:
        """Add the Events of our objects, of their children and of the pods of the installation."""
        pods = {str(pod["metadata"]["name"]) for pod in system}
        namespaces = sorted({str(pod["metadata"]["namespace"]) for pod in system})
        found = await self._list_objects("the Events", "events", *self._scope)
        if not self._scope:
            for namespace in namespaces:
                if namespace != self._cluster.namespace:
                    found += await self._list_objects(f"the Events of {namespace}", "events", "--namespace", namespace)
        kept = [event for event in found if _is_relevant(event.get("involvedObject") or {}, owners, pods)]
        self._add_json("events.json", [_describe_event(event) for event in kept])

    async def _collect_logs(self, runs: Sequence[ContainerRun]) -> None:
        for run in runs[_MOST_LOGS:]:
            self._add_gap(f"the log of {_log_name(run)}: more than {_MOST_LOGS} logs")
        free = asyncio.Semaphore(LOGS_AT_ONCE)
        await asyncio.gather(*(self._collect_log(run, free) for run in runs[:_MOST_LOGS]))

    async def _collect_log(self, run: ContainerRun, free: asyncio.Semaphore) -> None:
        name, limits = _log_name(run), (f"--since={self._since}", f"--tail={_MOST_LINES}")
        try:
            async with free:
                log = await read_container_log(run, *limits, place=self._place, kubectl=self._kubectl)
        except AgentUnreachable as error:
            self._add_gap(f"the log of {name}: {error}")
            return
        lines = log[-_MOST_BYTES:].decode(errors="replace").splitlines()
        if len(log) > _MOST_BYTES or len(lines) >= _MOST_LINES:
            self._add_gap(f"the log of {name}: lines before the last {len(lines)}")
        self._add_text(f"logs/{name}.log", redact_log(lines, self._redact))

    async def _list_objects(self, what: str, *words: str) -> list[Object]:
        """Return the items of a list, or nothing if it cannot be read. Raises: TransportError: kubectl is missing."""
        try:
            found = await kubectl_json(self._kubectl, (*self._place, "get", *words))
        except AgentUnreachable as error:
            self._add_gap(f"{what}: {error}")
            return []
        return [each for each in found.get("items") or () if isinstance(each, Mapping)]

    def _add_json(self, path: str, document: Any) -> None:
        self._add_text(path, json.dumps(self._redact(document), indent=2, ensure_ascii=False) + "\n")

    def _add_gap(self, text: str) -> None:
        # Error messages of kubectl and of the API server may quote a credential or a URL that has one.
        self.report.gaps.append(self._redact.text(text))

    def _add_text(self, path: str, text: str) -> None:
        self.report.files[path] = text.encode(errors="replace")

    def _build_readme(self) -> str:
        where = "all namespaces" if self._scope else f"namespace {self._cluster.namespace}"
        lines = [
            f"Support report of Fleetwright, {self._now:%Y-%m-%dT%H:%M:%SZ}, {where}, logs of the last {self._since}.",
            "Text in the format of a secret and the values of fields with the name of a secret are replaced.",
            (
                "An agent also replaces the values of its mounted Secrets; the report cannot, because it does not read"
                " them. Read the files before you send them."
            ),
            "",
            *_bulleted("Excluded on purpose:", EXCLUSIONS),
            *_bulleted("Not read, or not complete:", self.report.gaps or ["nothing"]),
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
        fields = read_json(line)
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


def _is_relevant(involved: Object, owners: set[str], pods: set[str]) -> bool:
    """Return whether an Event is about one of our objects, one of their children, or a pod of the installation."""
    kind, name = str(involved.get("kind")), str(involved.get("name"))
    if kind in _KINDS or (kind == "Pod" and name in pods):
        return True
    return kind in _CHILDREN and any(name == owner or name.startswith(f"{owner}-") for owner in owners)


def _container_names(body: Object) -> list[str]:
    return [str(container["name"]) for container in (body.get("spec") or {}).get("containers") or ()]


def _log_name(run: ContainerRun) -> str:
    return f"{run.namespace}/{run.pod}.{run.container}{'.previous' if run.is_previous else ''}"
