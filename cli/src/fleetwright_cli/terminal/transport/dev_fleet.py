"""The addresses of agents that `fleetwright dev` runs on this machine."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleetwright_cli.terminal.transport.endpoint import AgentTarget, build_agent_key
from fleetwright_cli.terminal.transport.errors import AgentNotFound, AgentUnreachable

ADDRESSES: Final = "addresses.json"
_DIGITS: Final = 12


def default_state(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the state folder that `fleetwright dev -f FOLDER` uses without `--state`."""
    return state_home(environ) / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:_DIGITS]


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the folder with the states of all local fleets, and with the index of conversations."""
    return Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "fleetwright"


def runs_in(state: Path) -> bool:
    return (state / ADDRESSES).is_file()


@dataclass(frozen=True, slots=True)
class DevEndpoint:
    """An agent of a local fleet, as one of its clients.

    The address is read again after a loss, because a new run has other ports.
    """

    state: Path
    agent: str
    client: str | None = None
    """The client whose token is used; by default `default`, or the first one."""
    is_administrator: bool = False
    """True if the default is the first administrator instead, if there is one."""

    @property
    def key(self) -> str:
        return build_agent_key(f"dev:{self.state.resolve()}/{self.agent}", self.client)

    @property
    def title(self) -> str:
        return self.agent

    async def open(self) -> AgentTarget:
        known = dev_agents(self.state)
        if self.agent not in known:
            raise AgentNotFound(f"the fleet has no agent {self.agent!r}; it has {', '.join(sorted(known))}")
        found = known[self.agent]
        return AgentTarget(str(found["url"]), self._choose_token(found))

    def _choose_token(self, address: Mapping[str, Any]) -> str:
        clients = address.get("clients") or {}
        administrators = (address.get("administrators") or []) if self.is_administrator else []
        client = self.client or next((name for name in administrators if name in clients), None)
        if client is None:
            return str(address["token"])
        if client in clients:
            return str(clients[client])
        if not clients:
            raise AgentNotFound(
                f"agent {self.agent} can sleep, so calls go through the gateway of the fleet with your own token; "
                "omit --client"
            )
        raise AgentNotFound(f"agent {self.agent} has no client {client!r}; give --client one of: {', '.join(clients)}")

    async def renew(self) -> None:
        """The next `open` reads the address again."""

    async def close(self) -> None:
        """A local address has nothing to close."""


def dev_agents(state: Path) -> dict[str, dict[str, Any]]:
    """Return the addresses of a running fleet. Raises: AgentUnreachable."""
    try:
        known: dict[str, dict[str, Any]] = json.loads((state / ADDRESSES).read_text())
    except (OSError, ValueError):
        message = f"no fleet runs in {state}; start one with `fleetwright dev`, or give --state, --url or -n"
        raise AgentUnreachable(message) from None
    return known
