"""Third-party MCP servers and A2A clients, each installed once into a cache from its own lock."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.ports import free_port
from tests.support.machine import is_in_ci
from tests.support.waiting import is_listening, wait_until

NPM = Path(__file__).with_name("npm")


@pytest.fixture(scope="session")
def python_servers(python_environment: Callable[[str], Path]) -> Path:
    """The folder with `mcp-server-time` and `mcp-server-git`."""
    return python_environment("mcp-servers")


def _from_npm(installed: Callable[..., Any], name: str, sources: Path) -> Path:
    """Return a folder with the sources and the packages that their lock names."""
    if shutil.which("npm") is None:
        if is_in_ci():
            pytest.fail("npm is missing, and with it what these tests need")
        pytest.skip("npm is not on this machine")
    with installed(name, sources / "package-lock.json") as (folder, there):
        # The lock does not cover our own programs, so each run copies them from the checkout.
        for file in sources.iterdir():
            shutil.copy(file, folder / file.name)
        if not there:
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder


@pytest.fixture(scope="session")
def everything(installed: Callable[..., Any]) -> list[str]:
    """The command of `@modelcontextprotocol/server-everything`, without its transport."""
    folder = _from_npm(installed, "npm-mcp-servers", NPM)
    return ["node", str(folder / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")]


@pytest.fixture(scope="session")
def javascript_clients(installed: Callable[..., Any]) -> Path:
    """The folder with the programs that use `@a2a-js/sdk`."""
    return _from_npm(installed, "npm-a2a-clients", NPM.with_name("npm-a2a"))


@pytest.fixture
def start(process_ring: None) -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    """Return a function that starts a program, waits until it listens, and returns the process and the port."""
    with _starting() as start:
        yield start


@pytest.fixture(scope="session")
def start_for_all() -> Iterator[Callable[..., int]]:
    """Return the same function for servers that all tests share; it first calls `before` with the port."""
    with _starting() as start:
        yield lambda *command, before: start(*command, before=before)[1]


@contextmanager
def _starting() -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], int]]]:
    running: list[subprocess.Popen[bytes]] = []

    def run(
        *command: str, before: Callable[[int], None] = lambda _: None, **environment: str
    ) -> tuple[subprocess.Popen[bytes], int]:
        port = free_port()
        before(port)
        words = [word.replace("$(PORT)", str(port)) for word in command]
        process = subprocess.Popen(words, env={**os.environ, "PORT": str(port), **environment})
        running.append(process)
        wait_until(lambda: is_listening(process, port), f"{command[0]} listens")
        return process, port

    yield run
    for process in running:
        process.kill()
        process.wait()
