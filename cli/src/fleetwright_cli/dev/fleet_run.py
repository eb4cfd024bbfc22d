"""A running local fleet: chooses ports, writes each agent's folder, and starts and replaces processes.

The state folder keeps memory and credentials between runs, so conversations survive a restart of `fleetwright dev`. On
a cluster, they likewise survive the restart of a pod.
"""

import json
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from fleetwright_api.model_catalog import Catalog
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_cli.dev.conversation import Address
from fleetwright_cli.dev.hosts import declared_hosts
from fleetwright_cli.dev.layout import AgentFiles, Ports, agent_files, server_url, token_names, workloads
from fleetwright_cli.dev.manifests import Fleet, InvalidFleet, read_fleet
from fleetwright_cli.dev.processes import Processes, free_port
from fleetwright_cli.dev.provider import SubstituteProvider, substitutions

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

    def apply(self) -> None:
        """Read the folder, and start, replace or stop processes that differ.

        Raises:
            InvalidFleet: The folder is invalid. The running processes stay.
            ProcessFailed: A process did not start.
        """
        fleet = read_fleet(self._folder, namespace=NAMESPACE)
        ports = self._with_ports(fleet)
        rendered = agent_files(
            fleet,
            namespace=NAMESPACE,
            ports=ports,
            provider=self._provider,
            tokens=self._tokens.of(token_names(fleet)),
            catalog=self._catalog,
            contacts=self._contacts,
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
        changed = {name for name, content in wanted.items() if self._running.get(name) != content}
        self._tell_differences(fleet, changed)
        self._start_servers(fleet, changed)
        self._start_agents(rendered, changed)
        self._running = wanted
        _write_private(self._state / ADDRESSES, json.dumps({k: asdict(v) for k, v in self.addresses().items()}))

    def _tell_differences(self, fleet: Fleet, changed: set[str]) -> None:
        """Print every model that is substituted, and every declared host that is left out."""
        servers = {name: server.spec for name, server in fleet.servers.items()}
        for name, agent in fleet.agents.items():
            if f"agent-{name}" not in changed:
                continue
            for line in substitutions(agent.spec, self._provider):
                self._say(f"agent {name}: {line}")
            for field, url in [] if self._contacts else declared_hosts(agent.spec, servers).items():
                self._say(f"agent {name}: {field} is left out: --contact-declared-hosts connects to {url}")

    def lost(self, name: str) -> bool:
        """Forget a process that ended, so that `apply` starts it again. Return False if it is not part of the fleet."""
        if self._running.pop(name, None) is None:
            return False
        self._processes.end(name)
        return True

    def addresses(self) -> dict[str, Address]:
        """Return the addresses of each running agent, with the token of its first client."""
        return {
            name: Address(
                f"http://{_HOST}:{port}", f"http://{_HOST}:{self._ports.ops[name]}", self._tokens.client(name)
            )
            for name, port in self._ports.agents.items()
            if f"agent-{name}" in self._running
        }

    def _with_ports(self, fleet: Fleet) -> Ports:
        return Ports(
            agents={name: self._ports.agents.get(name) or free_port() for name in fleet.agents},
            ops={name: self._ports.ops.get(name) or free_port() for name in fleet.agents},
            servers={name: self._ports.servers.get(name) or free_port() for name in workloads(fleet)},
        )

    def _start_servers(self, fleet: Fleet, changed: set[str]) -> None:
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

    def _start_agents(self, rendered: list[AgentFiles], changed: set[str]) -> None:
        starting = [agent for agent in rendered if f"agent-{agent.name}" in changed]
        for agent in starting:
            self._say(f"starting Agent {agent.name}, revision {agent.revision}")
            root = self._state / "agents" / agent.name
            _write(root, agent.files)
            port, ops = self._ports.agents[agent.name], self._ports.ops[agent.name]
            command = [sys.executable, "-m", "fleetwright_agent", "serve", "--root", str(root)]
            command += ["--host", _HOST, "--port", str(port), "--ops-port", str(ops)]
            self._processes.start(f"agent-{agent.name}", command)
        for agent in starting:
            self._processes.wait_ready(f"agent-{agent.name}", f"http://{_HOST}:{self._ports.ops[agent.name]}/readyz")


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
