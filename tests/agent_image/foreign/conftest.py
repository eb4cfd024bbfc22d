"""MCP servers that others wrote, each from a lock of its own, installed once into the cache of the machine."""

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
def python_servers() -> Path:
    """The folder with `mcp-server-time` and `mcp-server-git`."""
    lock = ROOT / "locks/mcp-servers.txt"
    with _installed("mcp-servers", lock) as (folder, there):
        environment = folder / "env"
        if not there:
            program = str(uv_folder() / "uv")
            subprocess.run([program, "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
            sync = [program, "pip", "sync", "--quiet", "--python", environment, "--require-hashes", lock]
            subprocess.run(sync, check=True)
        return environment / "bin"


@pytest.fixture(scope="session")
def everything() -> list[str]:
    """The command of `@modelcontextprotocol/server-everything`, without its transport."""
    if shutil.which("npm") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("npm is missing, and with it a server that these tests need")
        pytest.skip("npm is not on this machine")
    with _installed("npm-mcp-servers", NPM / "package-lock.json") as (folder, there):
        if not there:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(NPM / file, folder / file)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        script = folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        return ["node", str(script)]


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    """Starts a program that listens on the port named by `PORT`; the process and its port, once it listens."""
    running: list[subprocess.Popen[bytes]] = []

    def run(*command: str, **environment: str) -> tuple[subprocess.Popen[bytes], int]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
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
