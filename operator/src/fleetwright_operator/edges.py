"""Who may call whom: pure questions about the Agents of one namespace.

An edge needs both ends: the caller names the callee as peer, and the callee allows the caller. Unset
`allowedCallers` means that naming is enough. Both ends decide by this file, so they cannot disagree.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Agent = Mapping[str, Any]


def name_of(agent: Agent) -> str:
    return str(agent["metadata"]["name"])


def peer_names(agent: Agent) -> tuple[str, ...]:
    return tuple(sorted({peer["name"] for peer in agent["spec"].get("peers", ())}))


def allows(callee: Agent, caller: str) -> bool:
    allowed = callee["spec"].get("allowedCallers")
    if allowed is None:
        return True
    return any(agent["name"] == caller for agent in allowed.get("agents", ()))


def callers_of(callee: Agent, agents: Iterable[Agent]) -> tuple[str, ...]:
    """The agents that name `callee` as peer and that it allows, sorted."""
    name = name_of(callee)
    return tuple(
        sorted(
            name_of(agent)
            for agent in agents
            if name_of(agent) != name and name in peer_names(agent) and allows(callee, name_of(agent))
        )
    )


def allowed_peers(caller: Agent, agents: Mapping[str, Agent]) -> tuple[str, ...]:
    """The peers of `caller` that exist and allow it, sorted. `agents` is by name."""
    name = name_of(caller)
    return tuple(peer for peer in peer_names(caller) if peer != name and peer in agents and allows(agents[peer], name))
