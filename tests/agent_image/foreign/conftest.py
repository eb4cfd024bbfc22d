"""Third-party MCP servers and A2A clients, each installed once into a cache from its own lock."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.ports import free_port
from tests.support.installed_programs import require_programs
from tests.support.waiting import is_listening, wait_until

NPM = Path(__file__).with_name("npm")
MAVEN = Path(__file__).with_name("maven-a2a")


@pytest.fixture(scope="session")
def python_servers(python_environment: Callable[[str], Path]) -> Path:
    """The folder with `mcp-server-time` and `mcp-server-git`."""
    return python_environment("mcp-servers")


def _from_npm(installed: Callable[..., Any], name: str, sources: Path) -> Path:
    """Return a folder with the sources and the packages that their lock names."""
    require_programs("node", "npm")
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


@pytest.fixture(scope="session")
def java_client(installed: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the program that uses the Java SDK of A2A, without its arguments."""
    require_programs("mvn", "java", "javac")
    sums = MAVEN / "SHA256SUMS"
    with installed("maven-a2a-client", sums) as (folder, there):
        libraries = folder / "lib"
        if not there:
            options = [f"-DoutputDirectory={libraries}", "-DincludeScope=runtime"]
            command = ["mvn", "-q", "-B", "--strict-checksums", "-f", str(MAVEN / "pom.xml"), *options]
            subprocess.run([*command, "dependency:copy-dependencies"], check=True, stdout=sys.stderr)
            # Maven has no lock file with the digests of what it downloads.
            subprocess.run(["sha256sum", "--check", "--quiet", "--strict", sums], cwd=libraries, check=True)
        names = [line.split()[1] for line in sums.read_text().splitlines()]
    path = ":".join(str(libraries / name) for name in names)
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(["javac", "-cp", path, "-d", classes, MAVEN / "A2aClient.java"], check=True)
    return ["java", "-cp", f"{path}:{classes}", "A2aClient"]


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
