"""The changes that people make to a fleet, in steps. Each step starts from the result of the step before.

A step is a coroutine that acts as the administrator and returns at once; the operator does the rest.
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from e2e.control_plane.client import Client, Object

from fleetwright_api import names

Act = Callable[[Client, str], Awaitable[None]]


@dataclass(frozen=True)
class Step:
    name: str
    act: Act
    lasts: bool = True
    """False if the result changes after some minutes without another step."""


@dataclass(frozen=True)
class Flow:
    """Steps that every namespace of the flow takes, after it has been prepared."""

    prepare: Step
    steps: tuple[Step, ...]


def agent(name: str, space: str, **spec: Any) -> Object:
    whole = {"instructions": "Help.", "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"}, **spec}
    return _custom("Agent", name, space, whole)


def skill(name: str, space: str, text: str) -> Object:
    return _custom("Skill", name, space, {"source": {"inline": {"files": {"SKILL.md": _document(name, text)}}}})


def skill_of_files(name: str, space: str) -> Object:
    return _custom("Skill", name, space, {"source": {"configMap": {"name": f"{name}-files"}}})


def files(name: str, space: str, text: str) -> Object:
    metadata = {"name": f"{name}-files", "namespace": space}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"SKILL.md": _document(name, text)}}


def skill_elsewhere(name: str, space: str, **source: Any) -> Object:
    """A Skill whose files are in a repository or an image."""
    return _custom("Skill", name, space, {"source": source})


def server_elsewhere(name: str, space: str) -> Object:
    headers = [{"name": "X-Api-Key", "secretKeyRef": {"name": "far-key", "key": "api-key"}}]
    return _custom(
        "McpServer", name, space, {"remote": {"url": "https://tools.example.com/mcp", "headersFrom": headers}}
    )


def server(name: str, space: str, **workload: Any) -> Object:
    return _custom("McpServer", name, space, {"workload": {"image": "docker.io/example/tools:1", **workload}})


def key(space: str, text: str, *, name: str = "key", entry: str = "api-key") -> Object:
    metadata = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {entry: text}}


_DIGEST = f"sha256:{'b' * 64}"
MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1", "apiKeySecretRef": {"name": "key"}}
USES: dict[str, Any] = {
    "model": MODEL,
    "skills": [{"name": "haiku"}, {"name": "prose"}],
    "mcpServers": [{"name": "tools"}],
    "peers": [{"name": "helper"}],
    "fleet": {"parent": {"name": "helper"}, "reach": "Direct"},
}


def _helper(space: str, **spec: Any) -> Object:
    """An Agent with push notifications. It has a key that encrypts the credentials of receivers.

    It is an owner of its child, the agent that uses it.
    """
    return agent("helper", space, a2a={"push": {}}, fleet={"cascade": True, "reach": "Direct"}, **spec)


async def _prepare(client: Client, space: str) -> None:
    await client.apply(key(space, "one"))
    await client.apply(files("prose", space, "Write well."))
    await client.apply(_helper(space))


async def _create_parts(client: Client, space: str) -> None:
    await client.apply(skill("haiku", space, "Three lines."))
    await client.apply(skill_of_files("prose", space))
    await client.apply(server("tools", space))


async def _create_agent(client: Client, space: str) -> None:
    """Create the agent after the objects that it uses.

    Otherwise the number of its updates would depend on the watch order.
    """
    await client.apply(agent("poet", space, **USES))


async def _update(client: Client, space: str) -> None:
    """Apply a change that restarts no pod, a new port for a server, and `suspend` for an agent."""
    clients = {"clients": [{"name": "default"}, {"name": "gateway"}]}
    await client.apply(agent("poet", space, **USES, auth=clients))
    await client.apply(server("tools", space, port=9000))
    await client.apply(_helper(space, suspend=True))


async def _roll_out(client: Client, space: str) -> None:
    """Create a new revision by a change of the agent's spec, and resume the suspended agent.

    There is one change at a time. With two changes, the history might or might not contain the first revision.
    """
    await client.apply(agent("poet", space, **USES, instructions="Help well."))
    await client.apply(_helper(space))


async def _roll_out_skill(client: Client, space: str) -> None:
    await client.apply(skill("haiku", space, "Five, seven, five."))


async def _rotate(client: Client, space: str) -> None:
    """Delete a credential of each sort, change the provider's key, and change a ConfigMap that a skill is read from.

    The encryption key is deleted here, and not in the step that makes a token due by hand. Otherwise a reconcile that
    is running in that step would restore the record that it had read before.
    """
    await client.delete("Secret", space, "poet-client-default")
    await client.delete("Secret", space, "helper-auth")
    await client.delete("Secret", space, names.agent_push("helper"))
    await client.apply(key(space, "two"))
    await client.apply(files("prose", space, "Write better."))


async def _create_elsewhere(client: Client, space: str) -> None:
    """Create a server and skills outside the cluster, which probe pods read."""
    await _apply_keys_elsewhere(client, space, "one")
    await client.apply(server_elsewhere("far", space))
    commit = {"url": "https://git.example.com/team/skills.git", "commit": "a" * 40, "secretRef": {"name": "lore-key"}}
    await client.apply(skill_elsewhere("lore", space, git=commit))
    await client.apply(skill_elsewhere("saga", space, image={"reference": f"registry.example.com/saga@{_DIGEST}"}))


async def _apply_keys_elsewhere(client: Client, space: str, text: str) -> None:
    await client.apply(key(space, text, name="far-key"))
    await client.apply(key(space, text, name="lore-key", entry="token"))


async def _renew(client: Client, space: str) -> None:
    """Rotate the keys of everything outside the cluster, and make a token due for rotation."""
    await _apply_keys_elsewhere(client, space, "two")
    await _age_token(client, space)


async def _age_token(client: Client, space: str) -> None:
    """Make the record of a client's token as old as tokenTTL permits, because a test cannot wait for 30 days."""
    secret = await client.find("Secret", space, "helper-client-default")
    assert secret is not None
    annotation = names.RECORDS_ANNOTATION
    records = json.loads(secret["metadata"]["annotations"][annotation])
    records["default"]["current"]["issued"] = "2020-01-01T00:00:00Z"
    aged = {"metadata": {"annotations": {annotation: json.dumps(records)}}}
    await client.merge("Secret", space, "helper-client-default", aged)


async def _delete_agent(client: Client, space: str) -> None:
    await client.delete("Agent", space, "poet")


_REST = (
    *(("Skill", name) for name in ("haiku", "prose", "lore", "saga")),
    *(("McpServer", name) for name in ("tools", "far")),
    ("Agent", "helper"),
)


async def _delete_rest(client: Client, space: str) -> None:
    for kind, name in _REST:
        await client.delete(kind, space, name)


_STEPS = (
    Step("create a skill and a server", _create_parts),
    Step("create an agent", _create_agent),
    Step("update", _update),
    Step("rollout", _roll_out),
    Step("rollout by a skill", _roll_out_skill),
    Step("rotation", _rotate),
    Step("create what lies elsewhere", _create_elsewhere),
    Step("keys of what lies elsewhere, and a token that is due", _renew),
    Step("delete an agent", _delete_agent),
    Step("delete the rest", _delete_rest),
)
OBJECTS = Flow(Step("prepare", _prepare), _STEPS)


def _custom(kind: str, name: str, space: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": space}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _document(name: str, text: str) -> str:
    return f"---\nname: {name}\ndescription: Writes {name}.\n---\n{text}\n"
