"""The result of following an agent's `spec.fleet.forwardedTo`: a missing successor, or a cycle. Pure."""

from dataclasses import dataclass
from typing import Final

from fleetwright_api.spec.agent import AgentView
from fleetwright_operator.observe.hierarchy import Find

MAX_STEPS: Final = 32
"""The longest cycle that is found. The gateway follows fewer steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSuccessors:
    missing: str = ""
    """The successor that the agent names and that does not exist."""
    cycle: tuple[str, ...] = ()
    """The names of the agents in the cycle that contains this agent, beginning with this agent."""


def observe_successors(agent: AgentView, find: Find) -> ObservedSuccessors:
    """Follow the successors of the agent. A successor that names a missing agent has this problem itself."""
    path = [agent.name]
    following = agent.spec.fleet.forwarded_to
    while following is not None and len(path) <= MAX_STEPS:
        if following.name == agent.name:
            return ObservedSuccessors(cycle=tuple(path))
        successor = find((agent.namespace, following.name))
        if successor is None:
            return ObservedSuccessors(missing=following.name if len(path) == 1 else "")
        path.append(successor.name)
        following = successor.spec.fleet.forwarded_to
    return ObservedSuccessors()
