"""The changes that people and agents make to a team behind a gateway: questions, decisions, sleep and wakes.

The agents `clerk` and `napper` have a runtime and sleep as soon as they are idle. Each step therefore ends with
sleeping agents, and starts with a wake where an agent must answer. The agent `lead` is awake, and the napper may call
it.
"""

import json
from typing import Any

from e2e.control_plane.client import Client, Object
from e2e.faults.flows import Flow, Step, agent
from e2e.faults.runtimes import RUNTIME

from fleetwright_api import names

_REACH = {"reach": "Direct"}
_BELOW = {"parent": {"name": "lead"}, **_REACH}


def _lead(space: str, **spec: Any) -> Object:
    return agent("lead", space, fleet=_REACH, **spec)


def _clerk(space: str) -> Object:
    approvals = {"tools": ["load_skill"], "escalateAfter": "1s"}
    return _with_runtime(agent("clerk", space, fleet=_BELOW, sleep={"afterIdle": "10s"}, approvals=approvals))


def _napper(space: str) -> Object:
    peers = [{"name": "lead"}]
    return _with_runtime(agent("napper", space, fleet=_BELOW, sleep={"afterIdle": "10s"}, peers=peers))


def _with_runtime(body: Object) -> Object:
    """Return the Agent with the runtime that it has at first. Later steps patch the annotation."""
    return {**body, "metadata": {**body["metadata"], "annotations": {RUNTIME: _runtime({})}}}


def _runtime(asks: Object) -> str:
    return json.dumps({"asks": asks})


async def _prepare(client: Client, space: str) -> None:
    await client.apply(_lead(space))


async def _create_team(client: Client, space: str) -> None:
    for body in (_clerk(space), _napper(space)):
        await client.apply(body)


async def _wake(client: Client, space: str, name: str, request: str, **annotations: str) -> None:
    """Wake an agent as the gateway does."""
    wanted = {names.WAKE_ANNOTATION: request, **annotations}
    await client.merge("Agent", space, name, {"metadata": {"annotations": wanted}})


async def _ask(client: Client, space: str) -> None:
    """Wake the agents. The clerk asks two questions."""
    asks = {"decided": {"arguments": {"name": "one"}}, "replaced": {"arguments": {"name": "three"}}}
    await _wake(client, space, "clerk", "first", **{RUNTIME: _runtime(asks)})
    await _wake(client, space, "napper", "first")


async def _decide(client: Client, space: str) -> None:
    """Decide about a question of the sleeping clerk, and suspend the sleeping napper."""
    decision = {"spec": {"decision": "Approved", "decidedBy": "anna", "reason": "fine"}}
    await client.merge("Approval", space, names.approval("clerk", "decided"), decision)
    await client.merge("Agent", space, "napper", {"spec": {"suspend": True}})


async def _expire(client: Client, space: str) -> None:
    """Ask a question that expires, change the arguments of another one, and resume the napper."""
    asks = {
        "decided": {"arguments": {"name": "one"}},
        "expiring": {"arguments": {"name": "two"}, "expires": True},
        "replaced": {"arguments": {"name": "four"}},
    }
    await _wake(client, space, "clerk", "second", **{RUNTIME: _runtime(asks)})
    await client.merge("Agent", space, "napper", {"spec": {"suspend": None}})


async def _change_callers(client: Client, space: str) -> None:
    """Add a client of the lead, and delete an agent that may call the lead."""
    await client.apply(_lead(space, auth={"clients": [{"name": "default"}, {"name": "ci"}]}))
    await client.delete("Agent", space, "napper")


async def _delete_team(client: Client, space: str) -> None:
    for name in ("clerk", "lead"):
        await client.delete("Agent", space, name)


TEAM = Flow(
    Step("prepare a lead", _prepare),
    (
        Step("create a team", _create_team),
        Step("wakes and questions", _ask),
        Step("a decision and a suspension", _decide),
        Step("an expiry, another question and a resumption", _expire),
        # A revocation is removed after six minutes.
        Step("a client is added and a caller deleted", _change_callers, lasts=False),
        Step("delete the team", _delete_team),
    ),
)
