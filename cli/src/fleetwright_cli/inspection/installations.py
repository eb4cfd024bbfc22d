"""The installations of Fleetwright in a cluster: their versions, leaders, namespaces and problems."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import combinations
from typing import Any, Final

import click

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.cluster.tables import age, parse_timestamp

Object = Mapping[str, Any]
_HEAD: Final = ("INSTALLATION", "VERSION", "PODS", "LEADER", "RENEWED", "NAMESPACES", "OBJECTS")
_VERSION_LABEL: Final = "app.kubernetes.io/version"
_LEASE_VARIABLE: Final = "FLEETWRIGHT_LEASE_NAME"
_NAMESPACES_VARIABLE: Final = "FLEETWRIGHT_NAMESPACES"
_KINDS: Final = (names.AGENT, names.MCP_SERVER, names.SKILL)
_ALL: Final = "all"
_LEASE_SECONDS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    name: str
    """`<namespace>/<name>` of its Lease, as objects name it in `status.installation`."""
    version: str = ""
    """Empty if its Deployment does not exist."""
    pods: str = ""
    namespaces: tuple[str, ...] = ()
    """The namespaces that it serves; empty for all."""
    leader: str = ""
    renewed: str = ""
    """When the leader last renewed the Lease, as the API formats times; empty if there is none."""
    objects: int = 0
    """The number of Agents, McpServers and Skills that it manages."""
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    holder: str
    renewed: str
    seconds: int


def read_installations(cluster: ClusterClient, *, now: datetime) -> list[Installation]:
    """Return the installations that have a Deployment, or that an object of the cluster names.

    Raises:
        click.ClickException: The user may not read Deployments and Leases in the namespace of an installation.
    """
    deployments = {_name_of(body): body for body in cluster.list_operators()}
    managed: dict[str, Counter[str]] = {}
    for kind in _KINDS:
        for body in cluster.list(kind, everywhere=True):
            if name := str((body.get("status") or {}).get("installation") or ""):
                managed.setdefault(name, Counter())[str(body["metadata"].get("namespace") or "")] += 1
    return [
        describe_installation(
            name,
            deployments.get(name),
            cluster.find_lease(*name.split("/", 1)),
            objects=managed.get(name, {}),
            now=now,
        )
        for name in sorted({*deployments, *managed})
    ]


def describe_installation(
    name: str, deployment: Object | None, lease: Object | None, *, objects: Mapping[str, int], now: datetime
) -> Installation:
    """Return what is known about an installation. Pure.

    Args:
        objects: The numbers of the objects that it manages, by namespace.
    """
    held, count = _parse_lease(lease), sum(objects.values())
    if deployment is None:
        problem = "is not installed any more" if objects else ""
        return Installation(name=name, leader=held.holder, renewed=held.renewed, objects=count, problem=problem)
    served = _served_namespaces(deployment)
    ready = int((deployment.get("status") or {}).get("readyReplicas") or 0)
    return Installation(
        name=name,
        version=str(deployment["metadata"].get("labels", {}).get(_VERSION_LABEL, "")),
        pods=f"{ready}/{_replicas(deployment)}",
        namespaces=served,
        leader=held.holder,
        renewed=held.renewed,
        objects=count,
        problem=describe_lease_problem(lease, now=now) or _describe_unserved_namespaces(served, objects),
    )


def describe_lease_problem(lease: Object | None, *, now: datetime) -> str:
    """Return why an installation with this Lease does not work; empty if it works. Pure."""
    held = _parse_lease(lease)
    if not held.renewed:
        return "has no leader yet"
    if not held.holder:
        return f"has had no leader for {age(held.renewed, now)}"
    passed = now.timestamp() - parse_timestamp(held.renewed)
    return f"has not renewed its Lease for {age(held.renewed, now)}" if passed > 2 * held.seconds else ""


def _describe_unserved_namespaces(served: Sequence[str], objects: Iterable[str]) -> str:
    if left := sorted(set(objects) - set(served) if served else ()):
        return f"manages objects in {', '.join(left)}, which it does not serve: nothing works on them"
    return ""


def list_problems(found: Sequence[Installation]) -> list[str]:
    """Return the problems of the installations as sentences. Pure."""
    problems = [f"{each.name} {each.problem}" for each in found if each.problem]
    if not found:
        problems.append("no installation was found: install the chart")
    serving = [each for each in found if each.version or each.pods]
    for one, other in combinations(serving, 2):
        if shared := _shared_namespaces(one, other):
            problems.append(
                f"{one.name} and {other.name} both serve {shared}. Each object has one of them in status.installation,"
                " and the other writes nothing to it"
            )
    return problems


def installation_rows(found: Iterable[Installation], *, now: datetime) -> list[tuple[str, ...]]:
    return [
        _HEAD,
        *(
            (
                each.name,
                each.version or "-",
                each.pods or "-",
                each.leader or "-",
                age(each.renewed, now) if each.renewed else "-",
                ",".join(each.namespaces) or (_ALL if each.pods else "-"),
                str(each.objects),
            )
            for each in found
        ),
    ]


def installation_documents(found: Iterable[Installation]) -> list[dict[str, Any]]:
    """Return the installations as data, for programs."""
    return [{**asdict(each), "namespaces": list(each.namespaces)} for each in found]


@dataclass(frozen=True, slots=True)
class _Manager:
    """The state of the installation that manages an agent, as far as the user may read it."""

    stop: str = ""
    """The reason for which it does not work; empty if it works, or if its Lease may not be read."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that it serves; empty for all, or if its Deployment may not be read or does not exist."""


def group_unserved_agents(
    cluster: ClusterClient, agents: Iterable[Object], *, now: datetime
) -> dict[str, list[Object]]:
    """Return the agents on whose newest spec no operator works, by the reason.

    Each installation is read once. If the user may not read its Lease or its Deployment, the operator counts as
    working. An operator does nothing for an agent that is being deleted.
    """
    managers: dict[str, _Manager] = {}
    found: dict[str, list[Object]] = {}
    for agent in agents:
        if agent["metadata"].get("deletionTimestamp"):
            continue
        name = str((agent.get("status") or {}).get("installation") or "")
        if name not in managers:
            managers[name] = _read_manager(cluster, name, now=now) if name else _Manager()
        if reason := _describe_missing_operator(agent, managers[name]):
            found.setdefault(reason, []).append(agent)
    return found


def _read_manager(cluster: ClusterClient, name: str, *, now: datetime) -> _Manager:
    namespace, lease = name.split("/", 1)
    stop = ""
    served: tuple[str, ...] = ()
    with suppress(click.ClickException):
        stop = describe_lease_problem(cluster.find_lease(namespace, lease), now=now)
    with suppress(click.ClickException):
        deployments = cluster.list_operators(namespace=namespace)
        served = next((_served_namespaces(each) for each in deployments if _name_of(each) == name), ())
    return _Manager(stop, served)


def _describe_missing_operator(agent: Object, manager: _Manager) -> str:
    """Return why no operator works on the newest spec of an agent; empty if one does. Pure."""
    metadata, status = agent["metadata"], agent.get("status") or {}
    generation, observed = int(metadata.get("generation") or 0), status.get("observedGeneration")
    namespace, name = str(metadata.get("namespace") or ""), status.get("installation")
    remedy = "`kubectl fleetwright status` lists the installations"
    if observed is None:
        return f"no operator has seen the agent. None may serve its namespace: {remedy}"
    if manager.namespaces and namespace not in manager.namespaces:
        served = ", ".join(manager.namespaces)
        return (
            f"no operator serves the agent: {name}, which manages it, no longer serves namespace {namespace}, only "
            f"{served}. Add the namespace to the value `namespaces` of its chart, or move the agent to another "
            "installation with the annotation fleetwright.dev/installation"
        )
    if manager.stop:
        return f"no operator works: {name}, which manages the agent, {manager.stop}. {remedy}"
    if observed < generation:
        return f"the operator has not seen generation {generation} yet; it has seen {observed}"
    return ""


def _name_of(deployment: Object) -> str:
    metadata = deployment["metadata"]
    return f"{metadata['namespace']}/{_variables(deployment).get(_LEASE_VARIABLE, metadata['name'])}"


def _parse_lease(body: Object | None) -> _Lease:
    held = (body.get("spec") or {}) if body else {}
    return _Lease(
        holder=str(held.get("holderIdentity") or ""),
        renewed=_strip_fraction(str(held.get("renewTime") or "")),
        seconds=int(held.get("leaseDurationSeconds") or _LEASE_SECONDS),
    )


def _served_namespaces(deployment: Object) -> tuple[str, ...]:
    return tuple(sorted(filter(None, _variables(deployment).get(_NAMESPACES_VARIABLE, "").split(","))))


def _replicas(body: Object) -> int:
    return int(body["spec"].get("replicas", 1))


def _variables(body: Object) -> dict[str, str]:
    template = body["spec"]["template"]
    (container, *_) = template["spec"]["containers"]
    return {each["name"]: str(each.get("value") or "") for each in container.get("env") or ()}


def _shared_namespaces(one: Installation, other: Installation) -> str:
    """Return the namespaces that both serve, for a sentence."""
    if not one.namespaces and not other.namespaces:
        return "all namespaces"
    both = set(one.namespaces or other.namespaces) & set(other.namespaces or one.namespaces)
    return ", ".join(sorted(both))


def _strip_fraction(moment: str) -> str:
    """Return a time without its fraction, which Leases have."""
    whole, dot, _ = moment.partition(".")
    return f"{whole}Z" if dot else moment
