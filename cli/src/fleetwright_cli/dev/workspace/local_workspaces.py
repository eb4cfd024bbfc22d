"""The workspaces of a local fleet: chooses folders, clones sources, and starts a runner and a shell for each agent."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import fleetwright_workspace
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.workspace import TOOLS, WorkspaceGitSpec, WorkspaceSpec
from fleetwright_cli.dev.manifests import InvalidFleet, LocalFleet
from fleetwright_cli.dev.processes import Processes, ProcessFailed
from fleetwright_cli.dev.workspace.git_files import GitFiles, protect_repositories
from fleetwright_cli.dev.workspace.places import find_program
from fleetwright_cli.dev.workspace.sandbox import (
    SOCKET,
    TOKENS,
    UNCHECKED,
    PythonPlace,
    WorkspacePlace,
    probe_command,
    runner_command,
    shell_command,
)
from fleetwright_cli.dev.workspace.task_cgroups import TaskCgroups
from fleetwright_cli.dev.workspace.trusted_files import TrustedFiles, find_run_files
from fleetwright_workspace.files.git_guard import RepositoryGuard
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.install import install

_BASH = "bash"
_PROBE_SECONDS = 20
_CLONE_SECONDS = 600
_START_SECONDS = 10
_RUNNER, _SHELL = "workspace", "shell"
_REPOSITORIES = "repositories.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of this run that its workspaces must not change."""

    manifests: tuple[Path, ...] = ()
    """The folder of manifests, and the files to which its links lead."""
    states: tuple[Path, ...] = ()
    """Folders with tokens and indexes."""
    programs: tuple[Path, ...] = ()
    """The folders from which this program imports modules."""
    git: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables for git."""


@dataclass(frozen=True, slots=True)
class _Protection:
    """The protected files of a running workspace."""

    trusted: TrustedFiles
    identities: tuple[tuple[int, int] | None, ...]
    repositories: tuple[str, ...]
    """The repositories that existed when the workspace started first."""
    git: GitFiles
    guard: RepositoryGuard
    marker: Path


class LocalWorkspaces:
    def __init__(
        self,
        state: Path,
        processes: Processes,
        say: Callable[[str], None],
        *,
        folders: Mapping[str, Path],
        unsafe: bool,
        find_sandbox: Callable[[], str | None],
        run_files: RunFiles = RunFiles(),
        cgroups: TaskCgroups | None = None,
    ) -> None:
        """Args:
        folders: The folders that the user chose, by agent.
        unsafe: True if a shell may run without a sandbox.
        cgroups: The cgroups that limit the processes of root. None for other users, whose limit the kernel sets in the
            sandbox.
        """
        self._cgroups = cgroups
        self._has_warned = False
        self._run_files = run_files
        self._protections: dict[str, _Protection] = {}
        self._state = state
        self._processes = processes
        self._say = say
        self._folders = folders
        self._unsafe = unsafe
        self._python = PythonPlace.current(Path(fleetwright_workspace.__file__).parents[1])
        self._find_sandbox = find_sandbox
        self._sockets: Path | None = None

    def close(self) -> None:
        """Remove the sockets. The caller stops the processes."""
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)

    @cached_property
    def _bwrap(self) -> str | None:
        return self._find_sandbox()

    @property
    def runs_commands(self) -> bool:
        return self._bwrap is not None or self._unsafe

    def adjusted(self, fleet: LocalFleet) -> LocalFleet:
        """Return the fleet without shells, if this machine has no sandbox and the user did not permit that.

        Raises:
            InvalidFleet: The user chose a folder for an agent without a workspace.
        """
        for name in self._folders:
            if name not in fleet.agents or fleet.agents[name].spec.workspace is None:
                raise InvalidFleet(f"--workspace {name}: no Agent of this name in the folder has spec.workspace")
        if not workspace_specs(fleet) or self.runs_commands:
            return fleet
        agents = {name: replace(agent, spec=_without_shell(agent.spec)) for name, agent in fleet.agents.items()}
        return replace(fleet, agents=agents)

    def wanted(self, fleet: LocalFleet) -> dict[str, str]:
        """Return the processes by name, with what they depend on."""
        found: dict[str, str] = {}
        for name in workspace_specs(fleet):
            found[f"{_RUNNER}-{name}"] = json.dumps([str(self._folder(name))])
            if self.runs_commands:
                found[f"{_SHELL}-{name}"] = found[f"{_RUNNER}-{name}"]
        return found

    def tell(self, fleet: LocalFleet) -> None:
        """Print the folder of each workspace, and how its commands run."""
        for name, spec in workspace_specs(fleet).items():
            self._say(f"agent {name}: its workspace is {self._folder(name)}")
            if not self.runs_commands:
                self._say(
                    f"agent {name}: the tool bash is off, because bubblewrap (the program bwrap) is missing or does not"
                    " work here; install it, or run commands without a sandbox with --unsafe-workspace"
                )
            elif self._bwrap is None:
                self._say(f"agent {name}: commands run WITHOUT a sandbox and may do whatever you may do")
            elif spec.network.egress:
                self._say(
                    f"agent {name}: commands have no network in fleetwright dev; spec.workspace.network.egress takes"
                    " effect only in a cluster"
                )

    def start(
        self, fleet: LocalFleet, changed: Set[str], *, ports: Mapping[str, int], tokens: Mapping[str, str]
    ) -> None:
        """Start the processes that changed.

        Raises:
            ProcessFailed: A process does not start, or a source cannot be cloned.
            InvalidFleet: A source needs a Secret.
        """
        for name, spec in workspace_specs(fleet).items():
            if changed.isdisjoint({f"{_RUNNER}-{name}", f"{_SHELL}-{name}"}):
                continue
            place = self._prepare(name, spec, port=ports[name], token=tokens[f"workspace.{name}"])
            if self.runs_commands and f"{_SHELL}-{name}" in changed:
                (place.sockets / SOCKET).unlink(missing_ok=True)
                self._processes.start(f"{_SHELL}-{name}", self._limit_shell_command(name, place), self._environ())
            if f"{_RUNNER}-{name}" in changed:
                self._processes.start(
                    f"{_RUNNER}-{name}", runner_command(place, self._python, bwrap=self._bwrap), self._environ()
                )
            self._processes.wait_ready(f"{_RUNNER}-{name}", f"http://127.0.0.1:{place.port}/healthz")
            if self.runs_commands:
                self._wait_for_shell(name, place)

    def _limit_shell_command(self, name: str, place: WorkspacePlace) -> list[str]:
        command = shell_command(place, self._python, bwrap=self._bwrap)
        if self._cgroups is None:
            return command
        limited = self._cgroups.wrap_command(f"{_SHELL}-{name}", command)
        if limited is None and not self._has_warned:
            self._has_warned = True
            self._say(
                "a fork bomb in a command can stall this machine: the kernel exempts root from the limit of processes,"
                " and no cgroup with pids.max can be made here; run fleetwright dev as another user"
            )
        return limited or command

    def process_names(self, agent: str) -> tuple[str, str]:
        """Return the names of the processes of a workspace. Not every workspace has a shell."""
        return f"{_RUNNER}-{agent}", f"{_SHELL}-{agent}"

    def find_replaced_files(self) -> dict[str, str]:
        """Return the agents whose workspace has a protected file that was replaced, with the file.

        The kernel drops the mount of a file in the sandbox when a program outside replaces the file.
        """
        if self._bwrap is None:
            return {}
        found: dict[str, str] = {}
        for name, protection in self._protections.items():
            now = protection.trusted.identities()
            for path, before, after in zip(protection.trusted.paths(), protection.identities, now, strict=True):
                if before != after:
                    found[name] = str(path)
        return found

    def disarm_repositories(self) -> None:
        """Disarm the repositories that commands have made. The caller has ended the processes before."""
        for name, protection in self._protections.items():
            if self._bwrap is not None:
                for path in protection.guard.disarm():
                    self._say(f"agent {name}: disabled {path}, which a command has made for git")
                protection.marker.unlink(missing_ok=True)
            protection.git.remove_created()

    def _environ(self) -> Mapping[str, str]:
        return {"PYTHONPATH": str(self._python.source)} if self._bwrap is None else {}

    def _folder(self, name: str) -> Path:
        return self._folders.get(name) or self._state / "agents" / name / "workspace"

    def _prepare(self, name: str, spec: WorkspaceSpec, *, port: int, token: str) -> WorkspacePlace:
        own = self._state / "agents" / name
        place = WorkspacePlace(
            root=self._folder(name),
            state=own / "workspace-state",
            home=own / "workspace-home",
            sockets=self._socket_folder() / name,
            program=self._state / "workspace-program",
            port=port,
        )
        for folder in (place.root, place.state, place.home, place.sockets):
            folder.mkdir(parents=True, exist_ok=True)
        (place.state / TOKENS).write_text(hashlib.sha256(token.encode()).hexdigest() + "\n")
        install(str(place.program))
        if spec.source is not None and not any(place.root.iterdir()):
            self._clone(name, spec.source.git, place.root)
        protection = self._protect(name, place)
        self._protections[name] = protection
        return replace(place, trusted=protection.trusted)

    def _protect(self, name: str, place: WorkspacePlace) -> _Protection:
        """Find the files of a workspace that programs outside of it trust.

        Raises:
            InvalidFleet: One of them cannot be protected.
        """
        known = self._protections.get(name)
        marker = place.state / UNCHECKED
        if self._bwrap is None:
            repositories: tuple[str, ...] = ()  # Only the sandbox can protect them.
        elif known is None:
            guard = RepositoryGuard(WorkspaceRoot(str(place.root)), ())
            repositories = tuple(self._trusted_repositories(place, guard.find_repositories()))
        else:
            repositories = known.repositories
        run = self._run_files
        files = find_run_files(
            place.root,
            manifests=run.manifests,
            state=run.states,
            programs=run.programs,
            others=self._folders.values(),
        )
        git = protect_repositories(place.root, repositories, run.git, run.environ)
        trusted = replace(files, git=tuple(path for path in git.paths if path != place.root))
        guard = RepositoryGuard(
            WorkspaceRoot(str(place.root)), [str(path.relative_to(place.root)) for path in trusted.git]
        )
        if not marker.exists():
            guard.keep_existing_links()
        return _Protection(trusted, trusted.identities(), repositories, git, guard, marker)

    def _trusted_repositories(self, place: WorkspacePlace, found: list[str]) -> list[str]:
        """Return the repositories that commands have not made.

        After a crash, which left the marker, only those count that the last run has found.
        """
        record = place.state / _REPOSITORIES
        if (place.state / UNCHECKED).exists():
            recorded = set(json.loads(record.read_text())) if record.exists() else set()
            return [path for path in found if path in recorded]
        record.write_text(json.dumps(found))
        return found

    def _socket_folder(self) -> Path:
        """Return a folder with a short path. The path of a socket has at most 107 characters."""
        if self._sockets is None:
            self._sockets = Path(tempfile.mkdtemp(prefix="fleetwright-"))
        return self._sockets

    def _clone(self, name: str, git: WorkspaceGitSpec, into: Path) -> None:
        for key, reference in (("secretRef", git.secret_ref), ("caSecretRef", git.ca_secret_ref)):
            if reference is not None:
                raise InvalidFleet(
                    f"Agent {name}: spec.workspace.source.git.{key}: a local run has no Secrets; clone the repository"
                    f" yourself, and name the folder with --workspace {name}=FOLDER"
                )
        unused = " directly: a local run does not use its proxyURL" if git.proxy_url is not None else ""
        self._say(f"agent {name}: cloning {git.url}{unused}")
        words = [f"--url={git.url}", f"--into={into}", *([f"--ref={git.ref}"] if git.ref else [])]
        command = [sys.executable, "-m", "fleetwright_agent", "fetch", "workspace", *words]
        try:
            done = self._processes.run(command, seconds=_CLONE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"{git.url} was not cloned within {_CLONE_SECONDS} s") from None
        if done.returncode:
            raise ProcessFailed(f"{git.url} cannot be cloned: {(done.stderr or done.stdout).strip()[-500:]}")

    def _wait_for_shell(self, name: str, place: WorkspacePlace) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (place.sockets / SOCKET).exists():
            if f"{_SHELL}-{name}" in self._processes.ended() or time.monotonic() > deadline:
                raise ProcessFailed(f"the shell of {name} did not start; see {self._processes.log(f'{_SHELL}-{name}')}")
            time.sleep(0.02)


def workspace_specs(fleet: LocalFleet) -> dict[str, WorkspaceSpec]:
    """Return the workspaces of the agents that are not suspended, by agent."""
    found = {name: agent.spec.workspace for name, agent in fleet.agents.items() if not agent.spec.suspend}
    return {name: workspace for name, workspace in found.items() if workspace is not None}


def find_bwrap(environ: Mapping[str, str] = os.environ, untrusted: Collection[Path] = ()) -> str | None:
    """Return the path of bubblewrap if it works on this machine. In many containers it may not.

    Args: `untrusted` are folders of workspaces, from which no program may start.
    """
    program = find_program("bwrap", environ, untrusted, Path.cwd())
    if program is None:
        return None
    python = PythonPlace.current(Path(fleetwright_workspace.__file__).parents[1])
    command = probe_command(python, program)
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return program if done.returncode == 0 else None


def _without_shell(spec: AgentSpec) -> AgentSpec:
    """Return the spec without the tool bash. A workspace with no other tool is left out."""
    if spec.workspace is None:
        return spec
    tools = tuple(tool for tool in spec.workspace.tools or TOOLS if tool != _BASH)
    return replace(spec, workspace=replace(spec.workspace, tools=tools) if tools else None)
