"""MCP servers and A2A clients that others wrote, each from a lock of its own, installed once into a cache."""

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from e2e.cluster.paths import cache
from e2e.cluster.uv import folder as uv_folder

ROOT = Path(__file__).parents[3]
NPM = Path(__file__).with_name("npm")


@contextmanager
def _installed(name: str, lock: Path) -> Iterator[tuple[Path, bool]]:
    """A folder for what that lock says, and whether it is filled already; one process at a time fills it."""
    folder = cache() / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / ".installed"
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder, done.exists()
        done.touch()


@pytest.fixture(scope="session")
def python_environment() -> Callable[[str], Path]:
    """The folder with the programs of an environment, by the name of its lock."""

    def install(name: str) -> Path:
        lock = ROOT / f"locks/{name}.txt"
        with _installed(name, lock) as (folder, there):
            environment = folder / "env"
            if not there:
                uv = str(uv_folder() / "uv")
                venv = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment]
                subprocess.run(venv, check=True)
                sync = [uv, "pip", "sync", "--quiet", "--python", environment, "--require-hashes", lock]
                subprocess.run(sync, check=True)
            return environment / "bin"

    return install


@pytest.fixture(scope="session")
def python_servers(python_environment: Callable[[str], Path]) -> Path:
    """The folder with `mcp-server-time` and `mcp-server-git`."""
    return python_environment("mcp-servers")


def _from_npm(name: str, sources: Path) -> Path:
    """A folder with the packages of the lock among the sources, and the sources."""
    if shutil.which("npm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing, and with it what these tests need")
        pytest.skip("npm is not on this machine")
    with _installed(name, sources / "package-lock.json") as (folder, there):
        # Programs of ours are no part of the lock: they are what they are in this checkout.
        for file in sources.iterdir():
            shutil.copy(file, folder / file.name)
        if not there:
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder


@pytest.fixture(scope="session")
def everything() -> list[str]:
    """The command of `@modelcontextprotocol/server-everything`, without its transport."""
    folder = _from_npm("npm-mcp-servers", NPM)
    return ["node", str(folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")]


@pytest.fixture(scope="session")
def javascript_clients() -> Path:
    """The folder with the programs that use `@a2a-js/sdk`."""
    return _from_npm("npm-a2a-clients", NPM.with_name("npm-a2a"))


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    """Starts a program that listens on the port named by `PORT`; the process and its port, once it listens."""
    with _starting() as start:
        yield start


@pytest.fixture(scope="session")
def start_for_all() -> Iterator[Callable[..., int]]:
    """The same for what all tests share; `before` is called with the port first."""
    with _starting() as start:
        yield lambda *command, before: start(*command, before=before)[1]


@contextmanager
def _starting() -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    running: list[subprocess.Popen[bytes]] = []

    def run(
        *command: str, before: Callable[[int], None] = lambda _: None, **environment: str
    ) -> tuple[subprocess.Popen[bytes], int]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        before(port)
        words = [word.replace("$(PORT)", str(port)) for word in command]
        process = subprocess.Popen(words, env={**os.environ, "PORT": str(port), **environment})
        running.append(process)
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return process, port
            except OSError:
                time.sleep(0.05)
        pytest.fail(f"{command[0]} does not listen; exit code {process.poll()}")

    yield run
    for process in running:
        process.kill()
        process.wait()
