"""The objects that a bundle needs from the namespace and the cluster that it is imported into. Pure.

A bundle does not contain them: Secrets are never exported, and the other objects belong to other people.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.callers import AgentReference
from fleetwright_cli.team.bundle import secrets_of
from fleetwright_cli.team.tree import name_of

_FIELDS: Final = {
    "serviceAccountName": "ServiceAccount",
    "claimName": "PersistentVolumeClaim",
    "storageClassName": "StorageClass",
    "runtimeClassName": "RuntimeClass",
    "priorityClassName": "PriorityClass",
}
"""The fields that name an object, and the kinds of these objects."""


def requirements_of(manifests: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, list[str]]:
    """Return the names of the objects that the bundle refers to and does not contain, for each kind.

    Args: `namespace` is that of the exported team. An object of another namespace has its namespace before its name.
    """
    found: dict[str, set[str]] = {"Secret": set(secrets_of(manifests))}
    for manifest in manifests:
        for kind, name in _named(manifest):
            found.setdefault(kind, set()).add(name)
        if manifest["kind"] == names.AGENT:
            for kind, name in _references(manifest, namespace):
                found.setdefault(kind, set()).add(name)
    for manifest in manifests:
        found.get(manifest["kind"], set()).discard(name_of(manifest))
    return {kind: sorted(each) for kind, each in found.items() if each}


def requirement_lines(requirements: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the requirements as lines of text, or an empty list if there are none."""
    if not requirements:
        return []
    title = "These objects are not exported. Create them before the import, unless they exist:"
    return [title, *(f"{kind}: {', '.join(each)}" for kind, each in requirements.items())]


def _references(manifest: Mapping[str, Any], namespace: str) -> Iterator[tuple[str, str]]:
    spec = parse_agent({**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}).spec
    callers = spec.allowed_callers.agents if spec.allowed_callers is not None else ()
    for agent in (*spec.peers, *callers):
        yield names.AGENT, _place(agent, namespace)
    if spec.fleet.forwarded_to is not None:
        yield names.AGENT, spec.fleet.forwarded_to.name
    for server in spec.mcp_servers:
        yield names.MCP_SERVER, server.name
    for skill in spec.skills:
        yield names.SKILL, skill.name
    if spec.workspace is not None and spec.workspace.storage.claim is not None:
        yield "PersistentVolumeClaim", spec.workspace.storage.claim.name


def _place(agent: AgentReference, namespace: str) -> str:
    return agent.name if agent.namespace in {None, namespace} else f"{agent.namespace}/{agent.name}"


def _named(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each object that a field with a fixed name refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _FIELDS and isinstance(item, str) and item:
                yield _FIELDS[key], item
            yield from _named(item)
