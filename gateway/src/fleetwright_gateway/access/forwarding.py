"""Agents that another agent has replaced. Pure."""

from collections.abc import Mapping
from typing import Final

from fleetwright_api.call_authorization import Identity
from fleetwright_api.spec.agent import AgentView

MAX_HOPS: Final = 5
REPLACED: Final = "This agent was replaced, and this caller cannot call its successor."


def is_replaced(agent: AgentView) -> bool:
    return agent.spec.fleet.forwarded_to is not None


def replaced_by(found: AgentView) -> str:
    """Return the sentence for a caller that may call the successor."""
    return f"This agent was replaced by {found.namespace}/{found.name}."


def successor(agent: AgentView, agents: Mapping[Identity, AgentView]) -> AgentView | None:
    """Return the agent that replaced this one, after at most five steps.

    Return None if an agent on the way does not exist, or if the agents form a cycle.
    """
    current: AgentView | None = agent
    for _ in range(MAX_HOPS + 1):
        if current is None or current.spec.fleet.forwarded_to is None:
            return current
        current = agents.get((current.namespace, current.spec.fleet.forwarded_to.name))
    return None
