"""A running local fleet: chooses ports, writes each agent's folder, and starts and replaces processes.

The state folder keeps memory and credentials between runs, so conversations survive a restart of `fleetwright dev`. On
a cluster, they likewise survive the restart of a pod.
"""

import json
import secrets
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from fleetwright_api.model_catalog import Catalog
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_cli.dev.conversation import Address
from fleetwright_cli.dev.gateway.local_gateway import GatewayPlace
from fleetwright_cli.dev.gateway.local_team import LocalTeam, new_keys, token_file
from fleetwright_cli.dev.gateway.local_tokens import PERSON, token_text
from fleetwright_cli.dev.hosts import declared_hosts
from fleetwright_cli.dev.layout import (
    AgentFiles,
    GatewayFiles,
    Ports,
    agent_files,
    server_url,
    token_names,
    uses_gateway,
    workloads,
)
from fleetwright_cli.dev.manifests import InvalidFleet, LocalFleet, read_fleet
from fleetwright_cli.dev.processes import Processes, ProcessFailed, free_port
from fleetwright_cli.dev.provider import SubstituteProvider, substitutions
from fleetwright_operator.rollout.sleep import SleepState

NAMESPACE = "dev"
ADDRESSES = "addresses.json"
_HOST = "127.0.0.1"


class FleetRun:
    """A local fleet. `apply` makes it match the folder; calling it again restarts only what changed."""

    def __init__(
        self,
        folder: Path,
        *,
        state: Path,
        processes: Processes,
        provider: SubstituteProvider,
        catalog: Catalog,
        say: Callable[[str], None],
        contacts: bool = False,
    ) -> None:
        """Args: `contacts` is whether agents may connect to the hosts that they declare."""
        self._contacts = contacts
        self._folder = folder
        self._state = state
        self._processes = processes
        self._provider = provider
        self._catalog = catalog
        self._say = say
        self._ports = Ports({}, {}, {})
        self._running: dict[str, str] = {}
        self._tokens = _Tokens(state / "tokens.json")
        self._agents: dict[str, AgentFiles] = {}
        self._team: LocalTeam | None = None
        self._keys = new_keys(int(time.time()))
        # The thread that wakes agents and the one that applies changes exclude each other.
        self._lock = threading.RLock()

    def close(self) -> None:
        """Stop the gateway. The caller stops the processes of the agents."""
        if self._team is not None:
            self._team.close()

    @property
    def gateway_url(self) -> str:
        """The address of the gateway; empty if the fleet has none."""
        return "" if self._team is None else self._team.url

    def apply(self) -> None:
        """Read the folder, and start, replace or stop processes that differ.

        Raises:
            InvalidFleet: The folder is invalid. The running processes stay.
            ProcessFailed: A process did not start.
        """
        with self._lock:
            self._apply()

    def _apply(self) -> None:
        fleet = read_fleet(self._folder, namespace=NAMESPACE)
        ports = self._with_ports(fleet)
        tokens = self._tokens.of(token_names(fleet))
        team = self._team_for(fleet)
        rendered = agent_files(
            fleet,
            namespace=NAMESPACE,
            ports=ports,
            provider=self._provider,
            tokens=tokens,
            catalog=self._catalog,
            contacts=self._contacts,
            gateway=None if team is None else GatewayFiles(url=team.url, keys=self._keys),
        )
        self._ports = ports
        for item in fleet.left_out if not self._running else ():
            self._say(f"left out: {item} (a cluster would run it)")
        wanted = {f"agent-{agent.name}": json.dumps(agent.files, sort_keys=True) for agent in rendered}
        wanted |= {f"server-{name}": json.dumps(encode(workload)) for name, workload in workloads(fleet).items()}
        for name in [name for name in self._running if name not in wanted]:
            self._say(f"ending {name}")
            self._processes.end(name)
            del self._running[name]
            if team is not None:
                team.remove(name.removeprefix("agent-"))
        changed = {name for name, content in wanted.items() if self._running.get(name) != content}
        self._tell_differences(fleet, changed)
        self._start_servers(fleet, changed)
        self._agents = {agent.name: agent for agent in rendered}
        if team is not None:
            for agent in rendered:
                team.put(agent, fleet.agents[agent.name].spec)
        self._start_agents([agent for agent in rendered if f"agent-{agent.name}" in changed])
        self._running = wanted
        _write_private(self._state / ADDRESSES, json.dumps({k: asdict(v) for k, v in self.addresses().items()}))

    def _tell_differences(self, fleet: LocalFleet, changed: set[str]) -> None:
        """Print every model that is substituted, and every declared host that is left out."""
        servers = {name: server.spec for name, server in fleet.servers.items()}
        for name, agent in fleet.agents.items():
            if f"agent-{name}" not in changed:
                continue
            for line in substitutions(agent.spec, self._provider):
                self._say(f"agent {name}: {line}")
            for field, url in [] if self._contacts else declared_hosts(agent.spec, servers).items():
                self._say(f"agent {name}: {field} is left out: --contact-declared-hosts connects to {url}")

    def ended(self) -> list[str]:
        """Return the names of processes that ended by themselves. An agent that goes to sleep is not among them."""
        with self._lock:
            return self._processes.ended()

    def lost(self, name: str) -> bool:
        """Forget a process that ended, so that `apply` starts it again. Return False if it is not part of the fleet."""
        with self._lock:
            if self._running.pop(name, None) is None:
                return False
            self._processes.end(name)
            if self._team is not None:
                self._team.note_ended(name.removeprefix("agent-"))
            return True

    def addresses(self) -> dict[str, Address]:
        """Return the addresses of each agent, with the token of its first client.

        An agent that may sleep is reached through the gateway, with the token of the person who runs the fleet.
        """
        return {name: self._address(name) for name in self._ports.agents if f"agent-{name}" in self._running}

    def _address(self, name: str) -> Address:
        if self._team is not None and self._team.may_sleep(name):
            token = token_file(self._state).read_text()
            return Address(f"{self._team.url}/agents/{NAMESPACE}/{name}", "", token)
        port, ops = self._ports.agents[name], self._ports.ops[name]
        return Address(f"http://{_HOST}:{port}", f"http://{_HOST}:{ops}", self._tokens.client(name))

    def _with_ports(self, fleet: LocalFleet) -> Ports:
        return Ports(
            agents={name: self._ports.agents.get(name) or free_port() for name in fleet.agents},
            ops={name: self._ports.ops.get(name) or free_port() for name in fleet.agents},
            servers={name: self._ports.servers.get(name) or free_port() for name in workloads(fleet)},
        )

    def _start_servers(self, fleet: LocalFleet, changed: set[str]) -> None:
        local = workloads(fleet)
        for name, port in self._ports.servers.items():
            if f"server-{name}" not in changed:
                continue
            workload = local[name]
            command = _command(name, workload, port)
            self._say(f"starting McpServer {name}: {shlex.join(command)}")
            environ = {variable.name: variable.value for variable in workload.env}
            # A pod gets the same two variables; here they have the address of this machine.
            self._processes.start(f"server-{name}", command, environ | {"HOST": _HOST, "PORT": str(port)})
        for name, port in self._ports.servers.items():
            if f"server-{name}" in changed:
                self._processes.wait_ready(f"server-{name}", server_url(local[name], port))

    def _start_agents(self, agents: Iterable[AgentFiles]) -> None:
        """Start the processes of agents, except of those that sleep, and wait until they are ready."""
        starting = [agent for agent in agents if not self._sleeps(agent.name)]
        for agent in starting:
            self._say(f"starting Agent {agent.name}, revision {agent.revision}")
            root = self._state / "agents" / agent.name
            _write(root, agent.files)
            port, ops = self._ports.agents[agent.name], self._ports.ops[agent.name]
            command = [sys.executable, "-m", "fleetwright_agent", "serve", "--root", str(root)]
            command += ["--host", _HOST, "--port", str(port), "--ops-port", str(ops)]
            self._processes.start(f"agent-{agent.name}", command)
            self._note_started(agent.name, ready=False)
        for agent in starting:
            self._processes.wait_ready(f"agent-{agent.name}", f"http://{_HOST}:{self._ports.ops[agent.name]}/readyz")
            self._note_started(agent.name, ready=True)

    def _team_for(self, fleet: LocalFleet) -> LocalTeam | None:
        """Return the team, with a gateway that starts when the first agent needs one."""
        if self._team is None and uses_gateway(fleet):
            person = token_text(f"user:{PERSON}", self._tokens.of(token_names(fleet))["person"])
            place = GatewayPlace(port=free_port(), folder=self._state / "gateway", person_token=person)
            _write_private(token_file(self._state), person)
            team = LocalTeam(
                place,
                self._keys,
                namespace=NAMESPACE,
                wake=self._wake,
                put_to_sleep=self._put_to_sleep,
                now=lambda: int(time.time()),
            )
            self._say(f"starting the gateway at {team.url}")
            team.start()
            self._team = team
        return self._team

    def _sleeps(self, name: str) -> bool:
        return self._team is not None and self._team.sleeps(name)

    def _note_started(self, name: str, *, ready: bool) -> None:
        if self._team is not None:
            port, ops = self._ports.agents[name], self._ports.ops[name]
            self._team.note_started(name, port=port, ops_port=ops, ready=ready)

    def _wake(self, name: str) -> None:
        with self._lock:
            if self._team is None or name not in self._agents or not self._team.sleeps(name):
                return
            self._say(f"Agent {name} wakes")
            self._team.note_awake(name)
            try:
                self._start_agents([self._agents[name]])
            except (ProcessFailed, OSError) as error:
                self._say(f"Agent {name} does not wake: {error}")
                self._processes.end(f"agent-{name}")
                # The next message tries again.
                self._team.note_asleep(name, SleepState(since=int(time.time())))

    def _put_to_sleep(self, name: str, state: SleepState) -> None:
        with self._lock:
            if self._team is not None and f"agent-{name}" in self._running:
                self._say(f"Agent {name} is idle and sleeps")
                self._processes.end(f"agent-{name}")
                self._team.note_asleep(name, state)


def _command(name: str, workload: WorkloadSpec, port: int) -> list[str]:
    """Return the workload's command line with expanded variables. `fleetwright` runs in this Python environment.

    Raises:
        InvalidFleet: The workload has no command.
    """
    if not workload.command:
        raise InvalidFleet(
            f"McpServer {name}: spec.workload.command: a local run needs a command, because it runs no images"
        )
    words = [*_bridge(workload), *workload.command, *workload.args]
    expanded = [word.replace("$(PORT)", str(port)).replace("$(HOST)", _HOST) for word in words]
    if expanded[:1] == ["fleetwright"]:
        return [sys.executable, "-m", "fleetwright_cli", *expanded[1:]]
    return expanded


def _bridge(workload: WorkloadSpec) -> list[str]:
    """Return the bridge command that precedes the command of a stdio server, as in a pod."""
    if workload.transport != "Stdio":
        return []
    bridge = [sys.executable, "-m", "fleetwright_agent", "bridge", "--host", _HOST, "--port", "$(PORT)"]
    return [*bridge, "--path", workload.path, "--"]


def _write(root: Path, files: Mapping[str, str]) -> None:
    """Make the configuration folder contain exactly these files. Memory in other folders stays."""
    configuration = root / "etc/fleetwright"
    stale = {path for path in configuration.rglob("*") if path.is_file()} - {root / name for name in files}
    for path in stale:
        path.unlink()
    for name, content in files.items():
        _write_private(root / name, content)


def _write_private(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(content)
    fresh.replace(path)


class _Tokens:
    """Tokens by name, kept in one private file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        try:
            self._known = dict(json.loads(path.read_text()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError):
            raise InvalidFleet(f"{path} cannot be read; remove it to create new credentials") from None

    def of(self, names: list[str]) -> Mapping[str, str]:
        self._known = {name: self._known.get(name) or secrets.token_urlsafe(32) for name in names}
        _write_private(self._path, json.dumps(self._known))
        return self._known

    def client(self, agent: str) -> str:
        """Return the token of an agent's first client; empty if it has no clients."""
        return next((token for name, token in self._known.items() if name.startswith(f"client.{agent}.")), "")
