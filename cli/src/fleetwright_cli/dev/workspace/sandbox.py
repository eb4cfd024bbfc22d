"""The command lines of a workspace's two processes, with bubblewrap or without. Pure.

In the sandbox a process sees the programs of the machine, the workspace at `/workspace`, and its own files. It sees no
home folder, no other process and no variable of the user. The shell has no network either.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fleetwright_cli.dev.workspace.trusted_files import TrustedFiles, mount_options, runner_options

ROOT = "/workspace"
_HOME = "/home/workspace"
_SOCKETS = "/run/fleetwright"
_STATE = "/var/lib/fleetwright"
_PROGRAM = "/fleetwright"
_PROGRAMS = ("/usr", "/opt")
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
# Programs need these files. The others of /etc may hold credentials.
_SETTINGS = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "ssl", "group", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd",
)  # fmt: skip
SOCKET = "executor.sock"
TOKENS = "tokens"
UNCHECKED = "unchecked"
"""The file in the state of a workspace that exists while a command runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePlace:
    """The folders of one workspace on this machine."""

    root: Path
    state: Path
    """The undo store and the digests of tokens, which the shell does not see."""
    home: Path
    sockets: Path
    program: Path
    """The folder of the executor's zipapp."""
    port: int
    trusted: TrustedFiles = field(default_factory=TrustedFiles)
    """The files of the root that programs outside of the sandbox read."""


@dataclass(frozen=True, slots=True)
class PythonPlace:
    """The interpreter, and the folders that it reads."""

    executable: Path
    prefixes: tuple[Path, ...]
    source: Path
    """The folder of the package `fleetwright_workspace`."""

    @classmethod
    def current(cls, source: Path) -> "PythonPlace":
        return cls(Path(sys.executable), (Path(sys.prefix), Path(sys.base_prefix)), source)


def runner_command(place: WorkspacePlace, python: PythonPlace, *, bwrap: str | None) -> list[str]:
    """Return the command of the runner, which listens on the loopback interface."""
    state, sockets = (str(place.state), str(place.sockets)) if bwrap is None else (_STATE, _SOCKETS)
    command = [
        *_python(python),
        "-m",
        "fleetwright_workspace.runner",
        f"--root={place.root if bwrap is None else ROOT}",
        f"--state={state}",
        f"--executor={sockets}/{SOCKET}",
        f"--tokens={state}/{TOKENS}",
        f"--listen=127.0.0.1:{place.port}",
        *runner_options(place.root, place.trusted),
    ]
    if bwrap is None:
        return command
    command.append(f"--guard={state}/{UNCHECKED}")
    command += [f"--trusted={path.relative_to(place.root)}" for path in place.trusted.git]
    binds = _bind({place.root: ROOT, place.state: _STATE, place.sockets: _SOCKETS})
    binds += mount_options(place.root, ROOT, place.trusted)
    isolation = ["--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
    return [bwrap, *isolation, *_machine(python), *binds, "--", *command]


def shell_command(place: WorkspacePlace, python: PythonPlace, *, bwrap: str | None) -> list[str]:
    """Return the command of the executor. In the sandbox it is process 1, so no command can kill it."""
    if bwrap is None:
        options = [f"--socket={place.sockets}/{SOCKET}", f"--root={place.root}", f"--home={place.home}"]
        return [*_python(python), f"{place.program}/executor.pyz", *options]
    binds = _bind({place.root: ROOT, place.home: _HOME, place.sockets: _SOCKETS})
    binds += mount_options(place.root, ROOT, place.trusted)
    program = ["--ro-bind", str(place.program), _PROGRAM]
    options = [f"--socket={_SOCKETS}/{SOCKET}", f"--root={ROOT}", f"--home={_HOME}"]
    isolation = ["--unshare-all", "--as-pid-1", "--new-session"]
    command = [*_python(python), f"{_PROGRAM}/executor.pyz", *options]
    return [bwrap, *isolation, *_machine(python), *binds, *program, "--chdir", ROOT, "--", *command]


def probe_command(python: PythonPlace, bwrap: str) -> list[str]:
    """Return a command that succeeds if this machine can run the sandbox of the shell."""
    return [bwrap, "--unshare-all", "--as-pid-1", *_machine(python), "--", *_python(python), "-c", "pass"]


def _python(python: PythonPlace) -> list[str]:
    return [str(python.executable), "-S"]


def _machine(python: PythonPlace) -> list[str]:
    """Return the options that show the programs of this machine, read-only."""
    options = ["--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    for path in _PROGRAMS:
        options += ["--ro-bind-try", path, path]
    for path in _LINKS:
        link = Path(path)
        if link.is_symlink():
            options += ["--symlink", str(link.readlink()), path]
        else:
            options += ["--ro-bind-try", path, path]
    for name in _SETTINGS:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for folder in _outside_programs((*python.prefixes, python.source)):
        options += ["--ro-bind", str(folder), str(folder)]
    variables = {
        "PATH": f"/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:{python.executable.parent}",
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(python.source),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in variables.items():
        options += ["--setenv", name, value]
    return options


def _outside_programs(folders: Iterable[Path]) -> list[Path]:
    found = dict.fromkeys(folder for folder in folders)
    return [folder for folder in found if not any(folder.is_relative_to(path) for path in _PROGRAMS)]


def _bind(folders: dict[Path, str]) -> list[str]:
    return [word for outside, inside in folders.items() for word in ("--bind", str(outside), inside)]
