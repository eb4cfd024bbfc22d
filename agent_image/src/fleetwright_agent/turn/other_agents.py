"""The tools with which a turn calls other agents. There are none for an agent that may call no other agent.

Most agents call no other agent. Their turns do not import the A2A client, which takes a tenth of the imports of a turn.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from fleetwright_agent.tools.peers.call_records import CallRecords
from fleetwright_agent.tools.port import ToolProvider
from fleetwright_agent.turn.background_results import BackgroundTasksPort
from fleetwright_agent.turn.dependencies import TurnDependencies


class Closing(Protocol):
    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherAgents:
    over: Callable[[str, str], None]
    """Ends the open questions and the calls of a task; the arguments are its owner and its id."""
    closing: tuple[Closing, ...]
    peers: ToolProvider | None = None
    """The declared peers."""
    fleet: tuple[ToolProvider, ...] = ()
    """The agents that the gateway lists."""
    background: BackgroundTasksPort | None = None


def other_agents(
    dependencies: TurnDependencies, *, redact: Callable[[str], str], sleep: Callable[[float], Awaitable[None]]
) -> OtherAgents:
    """Open the HTTP client for other agents, if the configuration has any.

    Args:
        redact: Removes secrets from a text.
        sleep: Waits before a call is repeated.
    """
    config, storage = dependencies.config, dependencies.storage
    if not config.peers and config.gateway is None:
        return OtherAgents(over=lambda *_: None, closing=())
    from fleetwright_agent.turn.calling_agents import build_other_agents

    records = CallRecords(storage.peer_calls, storage.delegated, redact=redact, now=dependencies.clock.now)
    return build_other_agents(dependencies, records, sleep)
