"""Third-party MCP servers and A2A clients, installed once into a cache from their locks, and the agent they call."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.cluster import go_build
from e2e.cluster.ports import free_port
from e2e.cluster.progress import Progress
from tests.agent_image.foreign.served_agent import (
    ECHO,
    GATEWAY_PORT,
    NEWEST,
    RING,
    TOKEN,
    Receiver,
    Served,
    build_cards,
    mount_agent,
)
from tests.support.agent import steered_agent
from tests.support.installed_programs import require_programs
from tests.support.machine import ceiling
from tests.support.waiting import is_listening, wait_until

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.encoder import encode
from fleetwright_cli.dev.gateway.local_gateway import GatewayPlace, LocalGateway
from fleetwright_cli.dev.gateway.local_tokens import token_text
from fleetwright_operator.credentials.keyring import ring_text

NPM = Path(__file__).with_name("npm")
MAVEN = Path(__file__).with_name("maven-a2a")
GO = Path(__file__).with_name("go-a2a")


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


@pytest.fixture(scope="session")
def go_client(installed: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that uses the Go SDK of A2A."""
    program = tmp_path_factory.mktemp("go") / "a2a-client"
    with installed("go-a2a-client", GO / "go.sum") as (folder, _):
        go = go_build.toolchain(Progress())
        environment = go_build.make_environment(go, caches=folder)
        subprocess.run([go, "build", "-modcacherw", "-o", program, "."], cwd=GO, env=environment, check=True)
    return program


@pytest.fixture(scope="session")
def receiver(process_ring: None) -> Iterator[Receiver]:
    taken = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            taken.heard.setdefault(self.path, []).append((self.headers["X-A2A-Notification-Token"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taken.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield taken
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def direct(tmp_path_factory: pytest.TempPathFactory, start_for_all: Callable[..., int], receiver: Receiver) -> Served:
    """Start an agent with the operator's card."""
    return _start_agent(tmp_path_factory, start_for_all, receiver, ECHO)


def _start_agent(
    tmp_path_factory: pytest.TempPathFactory, start_for_all: Callable[..., int], receiver: Receiver, view: AgentView
) -> Served:
    root = tmp_path_factory.mktemp("agent")
    ops_port = free_port()
    port = start_for_all(
        sys.executable,
        steered_agent.__file__,
        str(root),
        "$(PORT)",
        str(ops_port),
        before=lambda port: mount_agent(root, view, url=f"http://127.0.0.1:{port}", receiver=receiver.port),
    )
    # The agent listens before it has opened its memory. Until then it refuses messages with status 503.
    wait_until(lambda: _is_ready(ops_port), "the agent accepts messages")
    return Served(f"http://127.0.0.1:{port}", TOKEN, str(root / "keys.json"), "direct")


def _is_ready(ops_port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{ops_port}/readyz", trust_env=False, timeout=ceiling()).is_success
    return False


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalGateway, str]]:
    """Start a gateway, and yield it with the token of a person who may call its agents."""
    folder = tmp_path_factory.mktemp("gateway")
    place = GatewayPlace(port=GATEWAY_PORT.number, folder=folder, person_token=token_text("user:developer", "secret"))
    place.keys_file.write_text(ring_text(RING))
    gateway = LocalGateway(place, namespace="team", on_wake=lambda _: None)
    gateway.start()
    yield gateway, place.person_token
    gateway.close()


@pytest.fixture(scope="session")
def behind_gateway(gateway: tuple[LocalGateway, str], direct: Served) -> Served:
    return _add_to_gateway(gateway, direct, ECHO)


@pytest.fixture(scope="session")
def translated(
    tmp_path_factory: pytest.TempPathFactory,
    start_for_all: Callable[..., int],
    receiver: Receiver,
    gateway: tuple[LocalGateway, str],
) -> Served:
    """Start an agent that supports only A2A 1.0, behind the gateway."""
    return _add_to_gateway(gateway, _start_agent(tmp_path_factory, start_for_all, receiver, NEWEST), NEWEST)


def _add_to_gateway(gateway: tuple[LocalGateway, str], served: Served, view: AgentView) -> Served:
    """Add the agent to the gateway, and return its address there."""
    local, token = gateway
    local.put_agent(view.name, encode(view.spec), cards=build_cards(view, served.url), token="", phase="Running")
    local.put_pod(view.name, port=int(served.url.rpartition(":")[2]), ops_port=9, ready=True)
    return Served(f"{local.url}/agents/team/{view.name}", token, served.keys, "gateway")


@pytest.fixture(params=["direct", "behind_gateway"])
def agent(request: pytest.FixtureRequest) -> Served:
    """The agent at its own address, and at the address of the gateway."""
    served: Served = request.getfixturevalue(request.param)
    return served


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
