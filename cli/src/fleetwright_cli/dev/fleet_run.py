"""A running local fleet: chooses ports, writes each agent's folder, and starts and replaces processes.

The state folder keeps memory and credentials between runs, so conversations survive a restart of `fleetwright dev`. On
a cluster, they likewise survive the restart of a pod.
"""

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from fleetwright_api.model_catalog import Catalog
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_cli.dev.conversation import Address
from fleetwright_cli.dev.gateway.local_gateway import GatewayPlace
from fleetwright_cli.dev.gateway.local_team import LocalTeam, new_keys, token_file
from fleetwright_cli.dev.gateway.local_tokens import PERSON, token_text
from fleetwright_cli.dev.hosts import declared_hosts, find_proxied_servers, without_declared_hosts_of
from fleetwright_cli.dev.layout import (
    HOST,
    AgentFiles,
    GatewayFiles,
    Ports,
    agent_files,
    server_url,
    token_names,
    uses_gateway,
    workloads,
)
from fleetwright_cli.dev.manifests import LocalFleet, read_fleet
from fleetwright_cli.dev.private_files import LocalTokens, write_configuration, write_private
from fleetwright_cli.dev.processes import Processes, ProcessFailed, free_port
from fleetwright_cli.dev.provider import SubstituteProvider, substitutions
from fleetwright_cli.dev.server_command import require_trusted_command, server_command
from fleetwright_cli.dev.workspace.local_workspaces import LocalWorkspaces, workspace_specs
from fleetwright_cli.dev.workspace.places import is_below
from fleetwright_cli.terminal.transport.dev_fleet import ADDRESSES
from fleetwright_operator.build.auth_files import client_names
from fleetwright_operator.rollout.sleep import SleepState

NAMESPACE = "dev"


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
        workspaces: LocalWorkspaces,
        contacts: bool = False,
        is_live: bool = True,
        untrusted: Collection[Path] = (),
    ) -> None:
        """Args:
        contacts: True if agents may connect to the hosts that they declare.
        is_live: False if the folder is read once only, because commands of a workspace could write to it.
        untrusted: The folders of workspaces, whose files no process may start from.
        """
        self._is_live = is_live
        self._untrusted = untrusted
        self._read: LocalFleet | None = None
        self._workspaces = workspaces
        self._contacts = contacts
        self._folder = folder
        self._state = state
        self._processes = processes
        self._provider = provider
        self._catalog = catalog
        self._say = say
        self._ports = Ports({}, {}, {})
        self._specs: dict[str, AgentSpec] = {}
        self._running: dict[str, str] = {}
        self._tokens = LocalTokens(state / "tokens.json")
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
        if self._read is None or self._is_live:
            self._read = read_fleet(self._folder, namespace=NAMESPACE)
        fleet = self._workspaces.adjusted(self._read)
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
        self._specs = {name: agent.spec for name, agent in fleet.agents.items()}
        if not self._running:
            for item in fleet.left_out:
                self._say(f"left out: {item} (a cluster would run it)")
            self._workspaces.tell(fleet)
        wanted = {f"agent-{agent.name}": json.dumps(agent.files, sort_keys=True) for agent in rendered}
        wanted |= {f"server-{name}": json.dumps(encode(workload)) for name, workload in workloads(fleet).items()}
        wanted |= self._workspaces.wanted(fleet)
        for name in [name for name in self._running if name not in wanted]:
            self._say(f"ending {name}")
            self._processes.end(name)
            del self._running[name]
            if team is not None:
                team.remove(name.removeprefix("agent-"))
        changed = {name for name, content in wanted.items() if self._running.get(name) != content}
        self._tell_differences(fleet, changed)
        self._start_servers(fleet, changed)
        reached = without_declared_hosts_of(fleet) if not self._contacts else fleet
        self._workspaces.start(reached, changed, ports=ports.workspaces, tokens=tokens)
        self._agents = {agent.name: agent for agent in rendered}
        if team is not None:
            for agent in rendered:
                team.put(agent, fleet.agents[agent.name].spec)
        self._start_agents([agent for agent in rendered if f"agent-{agent.name}" in changed])
        self._running = wanted
        write_private(self._state / ADDRESSES, json.dumps({k: asdict(v) for k, v in self.addresses().items()}))

    def _tell_differences(self, fleet: LocalFleet, changed: set[str]) -> None:
        """Print every model that is substituted, every declared host that is left out, and every unused proxy."""
        servers = {name: server.spec for name, server in fleet.servers.items()}
        for name, agent in fleet.agents.items():
            if f"agent-{name}" not in changed:
                continue
            for line in substitutions(agent.spec, self._provider):
                self._say(f"agent {name}: {line}")
            left_out = {} if self._contacts else declared_hosts(agent.spec, servers)
            for field, url in left_out.items():
                self._say(f"agent {name}: {field} is left out: --contact-declared-hosts connects to {url}")
            for field in find_proxied_servers(agent.spec, servers):
                if field not in left_out:
                    self._say(f"agent {name}: {field} is called directly: a local run does not use its proxyURL")

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

    def end_replaced_workspaces(self) -> bool:
        """End the workspaces in which a protected file was replaced. `apply` starts them with the new file protected.

        Return whether there are any.
        """
        with self._lock:
            replaced = self._workspaces.find_replaced_files()
            for name in replaced:
                self._say(f"agent {name}: git or another program replaced {replaced[name]}; running commands end")
                for process in self._workspaces.process_names(name):
                    self._processes.end(process)
                    self._running.pop(process, None)
            return bool(replaced)

    def addresses(self) -> dict[str, Address]:
        """Return the addresses of each agent, with the token of its client `default`, or of its first client.

        An agent that may sleep is reached through the gateway, with the token of the person who runs the fleet.
        """
        return {name: self._address(name) for name in self._ports.agents if f"agent-{name}" in self._running}

    def _address(self, name: str) -> Address:
        if self._team is not None and self._team.may_sleep(name):
            token = token_file(self._state).read_text()
            return Address(f"{self._team.url}/agents/{NAMESPACE}/{name}", "", token)
        port, ops = self._ports.agents[name], self._ports.ops[name]
        spec = self._specs[name]
        clients = {client: self._tokens.client(name, client) for client in client_names(spec)}
        token = clients.get("default") or next(iter(clients.values()), "")
        return Address(f"http://{HOST}:{port}", f"http://{HOST}:{ops}", token, clients, tuple(spec.auth.administrators))

    def _with_ports(self, fleet: LocalFleet) -> Ports:
        return Ports(
            agents={name: self._ports.agents.get(name) or free_port() for name in fleet.agents},
            ops={name: self._ports.ops.get(name) or free_port() for name in fleet.agents},
            servers={name: self._ports.servers.get(name) or free_port() for name in workloads(fleet)},
            workspaces={name: self._ports.workspaces.get(name) or free_port() for name in workspace_specs(fleet)},
        )

    def _start_servers(self, fleet: LocalFleet, changed: set[str]) -> None:
        local = workloads(fleet)
        for name, port in self._ports.servers.items():
            if f"server-{name}" not in changed:
                continue
            workload = local[name]
            command = server_command(name, workload, port)
            current = Path.cwd()
            require_trusted_command(name, workload, self._untrusted, current)
            self._say(f"starting McpServer {name}: {shlex.join(command)}")
            environ = {variable.name: variable.value for variable in workload.env}
            # A pod gets the same two variables; here they have the address of this machine.
            environ |= {"HOST": HOST, "PORT": str(port)}
            # Many programs import modules or read settings of the current folder.
            folder = None if is_below(current, self._untrusted) else current
            self._processes.start(f"server-{name}", command, environ, folder=folder)
        for name, port in self._ports.servers.items():
            if f"server-{name}" in changed:
                self._processes.wait_ready(f"server-{name}", server_url(local[name], port))

    def _start_agents(self, agents: Iterable[AgentFiles]) -> None:
        """Start the processes of agents, except of those that sleep, and wait until they are ready."""
        starting = [agent for agent in agents if not self._sleeps(agent.name)]
        for agent in starting:
            self._say(f"starting Agent {agent.name}, revision {agent.revision}")
            root = self._state / "agents" / agent.name
            write_configuration(root, agent.files)
            port, ops = self._ports.agents[agent.name], self._ports.ops[agent.name]
            command = [sys.executable, "-m", "fleetwright_agent", "serve", "--root", str(root)]
            command += ["--host", HOST, "--port", str(port), "--ops-port", str(ops)]
            self._processes.start(f"agent-{agent.name}", command)
            self._note_started(agent.name, ready=False)
        for agent in starting:
            self._processes.wait_ready(f"agent-{agent.name}", f"http://{HOST}:{self._ports.ops[agent.name]}/readyz")
            self._note_started(agent.name, ready=True)

    def _team_for(self, fleet: LocalFleet) -> LocalTeam | None:
        """Return the team, with a gateway that starts when the first agent needs one."""
        if self._team is None and uses_gateway(fleet):
            person = token_text(f"user:{PERSON}", self._tokens.of(token_names(fleet))["person"])
            place = GatewayPlace(port=free_port(), folder=self._state / "gateway", person_token=person)
            write_private(token_file(self._state), person)
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
                # First, so that a message that arrives now waits for the lock and wakes the agent.
                self._team.note_asleep(name, state)
                self._processes.end(f"agent-{name}")
