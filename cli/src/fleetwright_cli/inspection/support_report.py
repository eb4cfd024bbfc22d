"""Collects what helps to find a fault of an installation: versions, states, events and logs.

The command reads no Secret and no ConfigMap. The redaction of secrets that agents use for their logs replaces text in
the format of a secret, and the values of fields with the name of a secret. An agent also replaces the values of its
mounted Secrets; the report cannot, because it does not read them. `README.txt` names what the report excludes on
purpose, and its gaps: what could not be read or is not complete.
"""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from typing import Any, Final

import click

from fleetwright_a2a.redaction.redactor import REDACTED, Redactor
from fleetwright_api import names
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.inspection.installations import installation_documents, list_problems, read_installations
from fleetwright_cli.inspection.log_reading import (
    AGENT_CONTAINER,
    LOGS_AT_ONCE,
    ContainerLog,
    ContainerRun,
    list_container_runs,
    read_container_log,
)
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, place_options

Object = Mapping[str, Any]
_KINDS: Final = {names.AGENT: "agents", names.MCP_SERVER: "mcpservers", names.SKILL: "skills"}
_OTHERS: Final = f"{names.MANAGED_BY}!={names.FIELD_MANAGER}"
INSTALLATION_PODS: Final = (
    f"{names.NAME}=fleetwright-operator,{_OTHERS}",
    f"{names.NAME}=fleetwright,{names.COMPONENT}=gateway,{_OTHERS}",
)
"""The label selectors of the pods of the chart. The pods of an Agent may have the same name, but another manager."""
_METADATA: Final = ("name", "namespace", "generation", "creationTimestamp", "deletionTimestamp", "finalizers")
_CHILDREN: Final = {
    "ReplicaSet": "replicasets.apps",
    "Deployment": "deployments.apps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Service": "services",
}
"""The kinds of children beside pods that have Events."""
_KEY_MARK: Final = re.compile(r"-----(BEGIN|END) [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_MOST_LINES: Final = 5_000
_MOST_BYTES: Final = 2 * 1024 * 1024
_MOST_LOGS: Final = 200
EXCLUSIONS: Final = (
    "Secrets and ConfigMaps: the command does not read them",
    "the specs of objects, which contain instructions and addresses: add those that matter by hand",
    "Approvals, which contain the arguments of tool calls",
    (
        "the messages and the memory of agents, and the arguments and results of tools. The logs of this project's"
        " images have none; those of your own code may. The logs name tasks, tools and costs, and contain error"
        " messages of model providers"
    ),
    "the logs of McpServers, workspaces, egress proxies and of containers beside an agent",
)


AddFile = Callable[[str, bytes], None]
"""Adds a file to the archive, by its path in it."""
ObjectKey = tuple[str, str, str]
"""The kind, the namespace and the name of an object."""


async def collect_report(
    cluster: ClusterClient,
    add_file: AddFile,
    *,
    everywhere: bool,
    since: str,
    now: datetime,
    kubectl: str = "kubectl",
) -> list[str]:
    """Collect the report about a namespace, or about all of them, and about the installations of the cluster.

    Args:
        cluster: The cluster and the namespace.
        add_file: Receives each file as soon as it is complete, so that a report of many logs needs little memory.
        everywhere: True for all namespaces.
        since: The age of the oldest log lines, as a duration of kubectl such as 24h.
        now: The present time.
        kubectl: The program to run.

    Returns:
        The gaps: what could not be read or is not complete, and why, without secrets.

    Raises: TransportError: kubectl is missing.
    """
    collector = _Collector(cluster, add_file, everywhere=everywhere, since=since, now=now, kubectl=kubectl)
    await collector.collect()
    return collector.gaps


class _Collector:
    def __init__(
        self, cluster: ClusterClient, add_file: AddFile, *, everywhere: bool, since: str, now: datetime, kubectl: str
    ) -> None:
        self.gaps: list[str] = []
        self._cluster = cluster
        self._add_file = add_file
        self._scope = ("--all-namespaces",) if everywhere else ()
        self._since = since
        self._now = now
        self._kubectl = kubectl
        self._place = place_options(cluster.context, cluster.namespace)
        self._redact = Redactor()

    async def collect(self) -> None:
        await self._collect_versions()
        self._collect_installations()
        owners = [key for kind, plural in _KINDS.items() for key in await self._collect_objects(kind, plural)]
        own = await self._list_objects(
            "the pods of agents and McpServers", "pods", *self._scope, "-l", names.OWN_OBJECTS
        )
        system = [
            pod
            for selector in INSTALLATION_PODS
            for pod in await self._list_objects(
                "the pods of the installation", "pods", "--all-namespaces", "-l", selector
            )
        ]
        self._add_json("pods.json", [_describe_pod(pod) for pod in (*system, *own)])
        await self._collect_events(owners, [*system, *own], {_place_of(pod)[0] for pod in system})
        containers = [(pod, name) for pod in system for name in _container_names(pod)]
        containers += [(pod, AGENT_CONTAINER) for pod in own if _component_of(pod) == "agent"]
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

    async def _collect_objects(self, kind: str, plural: str) -> list[ObjectKey]:
        """Add the status of all objects of a kind. Return their keys."""
        found = await self._list_objects(f"the {kind} objects", f"{plural}.{names.GROUP}", *self._scope)
        shown = [_restore_public_fields(self._redact(_describe_object(body)), body, self._redact) for body in found]
        self._add_text(f"objects/{plural}.json", _format_json(shown))
        return [(kind, *_place_of(body)) for body in found]

    async def _collect_events(
        self, owners: Sequence[ObjectKey], pods: Sequence[Object], system_namespaces: set[str]
    ) -> None:
        """Add the Events of our objects, of their children and of the pods of the installation."""
        known = {*owners, *(("Pod", *_place_of(pod)) for pod in pods)}
        # A child has the name of its owner, or the label of a managed object.
        known |= {(kind, namespace, name) for kind in (*_CHILDREN, "Pod") for _, namespace, name in owners}
        for kind, plural in _CHILDREN.items():
            found = await self._list_objects(
                f"the {kind} objects of agents", plural, *self._scope, "-l", names.OWN_OBJECTS
            )
            known |= {(kind, *_place_of(body)) for body in found}
        events = await self._list_objects("the Events", "events", *self._scope)
        if not self._scope:
            for namespace in sorted(system_namespaces - {self._cluster.namespace}):
                events += await self._list_objects(f"the Events of {namespace}", "events", "--namespace", namespace)
        kept = [event for event in events if _is_relevant(event.get("involvedObject") or {}, known)]
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
                log = await read_container_log(run, *limits, place=self._place, kubectl=self._kubectl, most=_MOST_BYTES)
                self._add_log(name, log)
        except AgentUnreachable as error:
            self._add_gap(f"the log of {name}: {error}")

    def _add_log(self, name: str, log: ContainerLog) -> None:
        lines = log.content.decode(errors="replace").splitlines()
        if log.is_cut or len(lines) >= _MOST_LINES:
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
        self._add_text(path, _format_json(self._redact(document)))

    def _add_gap(self, text: str) -> None:
        # Error messages of kubectl and of the API server may quote a credential or a URL that has one.
        self.gaps.append(self._redact.text(text))

    def _add_text(self, path: str, text: str) -> None:
        self._add_file(path, text.encode(errors="replace"))

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
            *_bulleted("Not read, or not complete:", self.gaps or ["nothing"]),
        ]
        return "\n".join(lines)


def redact_log(lines: Iterable[str], redact: Redactor) -> str:
    """Return the lines of a log without secrets. Pure but for the mounted files of `redact`.

    A line of JSON is redacted by its fields. Other lines are redacted together, because a secret may have several
    lines. A private key may also have its beginning before the first line, or lines of JSON within it.
    """
    parts: list[str] = []
    for is_object, group in groupby(_hide_keys(list(map(_parse, lines))), key=lambda parsed: parsed[0] is not None):
        if is_object:
            parts += [json.dumps(redact(fields), ensure_ascii=False) for fields, _ in group]
        else:
            parts.append(redact.text("\n".join(text for _, text in group)))
    return "\n".join([*parts, ""]) if parts else ""


Line = tuple[dict[str, Any] | None, str]
"""A line of a log as a JSON object, or None, and as text."""


def _hide_keys(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines without the private keys (RFC 7468) in the lines that are no JSON object.

    Text is secret if a beginning precedes it or an end follows it. So a key without an end continues to the last line,
    and a key whose beginning is older than the log starts at the first line.
    """
    marks = [mark[1] for fields, text in lines if fields is None for mark in _KEY_MARK.finditer(text)]
    following, is_redacted = iter([*marks[1:], ""]), False
    before, after = "", marks[0] if marks else ""
    for fields, text in lines:
        if fields is not None:
            yield fields, text
            continue
        shown, start, has_secret = "", 0, False
        for mark in (*_KEY_MARK.finditer(text), None):
            is_secret = before == "BEGIN" or after == "END"
            has_secret = has_secret or is_secret
            if not is_secret:
                shown += text[start : mark.start() if mark else len(text)]
            elif not is_redacted:
                shown += REDACTED
            is_redacted = is_secret
            if mark:
                start, before, after = mark.end(), after, next(following)
                is_redacted = is_redacted and before != "END"
        if shown or not has_secret:
            yield None, shown


def _parse(line: str) -> Line:
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


def _restore_public_fields(shown: dict[str, Any], body: Object, redact: Redactor) -> dict[str, Any]:
    """Return a redacted object with two fields of its status that only have the name of a secret. Pure.

    `credentials` has the time at which the first token expires, and `clients[].secret` the name of a Secret.
    """
    status = body.get("status") or {}
    credentials, clients = status.get("credentials"), status.get("clients")
    restored = dict(shown["status"])
    if isinstance(credentials, Mapping) and "expires" in credentials:
        restored["credentials"] = {"expires": redact.text(str(credentials["expires"]))}
    if isinstance(clients, list):
        restored["clients"] = [
            {key: redact.text(str(client[key])) for key in ("name", "secret") if key in client}
            for client in clients
            if isinstance(client, Mapping)
        ]
    return {**shown, "status": restored}


def _is_relevant(involved: Object, known: Collection[ObjectKey]) -> bool:
    """Return whether an Event is about one of our objects, one of their children, or a pod of the installation. Pure.

    Args:
        involved: The `involvedObject` of the Event.
        known: The objects of which all Events matter. The Events of a pod outlive it, so those of a pod that a known
            ReplicaSet has created matter too, and those of all objects of our kinds.
    """
    kind, namespace, name = (str(involved.get(key) or "") for key in ("kind", "namespace", "name"))
    if kind in _KINDS and str(involved.get("apiVersion")).startswith(f"{names.GROUP}/"):
        return True
    creator = name.rpartition("-")[0]
    return (kind, namespace, name) in known or (kind == "Pod" and ("ReplicaSet", namespace, creator) in known)


def _place_of(body: Object) -> tuple[str, str]:
    return str(body["metadata"].get("namespace") or ""), str(body["metadata"]["name"])


def _component_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(names.COMPONENT) or "")


def _format_json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _container_names(body: Object) -> list[str]:
    return [str(container["name"]) for container in (body.get("spec") or {}).get("containers") or ()]


def _log_name(run: ContainerRun) -> str:
    return f"{run.namespace}/{run.pod}.{run.container}{'.previous' if run.is_previous else ''}"
