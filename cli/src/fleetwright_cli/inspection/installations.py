"""The installations of Fleetwright in a cluster: their versions, leaders, namespaces and problems."""

from collections.abc import Iterable, Mapping, Sequence
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
    managed: dict[str, int] = {}
    for kind in _KINDS:
        for body in cluster.list(kind, everywhere=True):
            if name := str((body.get("status") or {}).get("installation") or ""):
                managed[name] = managed.get(name, 0) + 1
    return [
        describe_installation(
            name,
            deployments.get(name),
            cluster.find_lease(*name.split("/", 1)),
            objects=managed.get(name, 0),
            now=now,
        )
        for name in sorted({*deployments, *managed})
    ]


def describe_installation(
    name: str, deployment: Object | None, lease: Object | None, *, objects: int, now: datetime
) -> Installation:
    """Return what is known about an installation. Pure."""
    held = _parse_lease(lease)
    if deployment is None:
        problem = "is not installed any more" if objects else ""
        return Installation(name=name, leader=held.holder, renewed=held.renewed, objects=objects, problem=problem)
    variables = _variables(deployment)
    ready = int((deployment.get("status") or {}).get("readyReplicas") or 0)
    return Installation(
        name=name,
        version=str(deployment["metadata"].get("labels", {}).get(_VERSION_LABEL, "")),
        pods=f"{ready}/{_replicas(deployment)}",
        namespaces=tuple(sorted(filter(None, variables.get(_NAMESPACES_VARIABLE, "").split(",")))),
        leader=held.holder,
        renewed=held.renewed,
        objects=objects,
        problem=describe_lease_problem(lease, now=now),
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


def describe_missing_operator(cluster: ClusterClient, agent: Object, *, now: datetime) -> str:
    """Return why no operator works on the current spec of an agent; empty if one does, or if that cannot be read."""
    status, generation = agent.get("status") or {}, int(agent["metadata"].get("generation") or 0)
    remedy = "`kubectl fleetwright status` lists the installations"
    observed = status.get("observedGeneration")
    name = str(status.get("installation") or "")
    stopped = ""
    if name:
        try:
            stopped = describe_lease_problem(cluster.find_lease(*name.split("/", 1)), now=now)
        except click.ClickException:
            stopped = ""  # The user may not read Leases in the namespace of the installation.
    if observed is None:
        return f"no operator has seen this agent. None may serve its namespace: {remedy}"
    if stopped:
        return f"no operator works: {name}, which manages the agent, {stopped}. {remedy}"
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
