"""A gateway process behind the fault proxy of the sweep, a node for agents without containers, and their answers."""

import asyncio
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from e2e.cluster.ports import free_address
from e2e.faults.plan import Plan
from e2e.faults.proxy import FaultProxy
from tests.controlplane.conftest import Refusal, Space
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

from fleetwright_api.names import A2A_PORT

ROOT = Path(__file__).parents[2]
WAKE = "fleetwright.dev/wake"


class _Agent(BaseHTTPRequestHandler):
    """Answers every message."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"answered": True}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing."""


class AnsweringNode:
    """Reports each pod of an agent as running and ready, at an address that answers, and remembers all pods."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._stopping = threading.Event()
        self.pods: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of the pods of each agent."""
        self._servers: dict[str, ThreadingHTTPServer] = {}
        """By the uid of the pod."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(ceiling())
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def _run(self) -> None:
        while not self._stopping.wait(0.1):
            for pod in self._space.list_objects("Pod"):
                agent = pod["metadata"]["labels"].get("fleetwright.dev/agent")
                if agent and pod["metadata"]["uid"] not in self.pods[agent]:
                    self.pods[agent].add(pod["metadata"]["uid"])
                    self._start(pod["metadata"]["name"], pod["metadata"]["uid"])

    def _start(self, name: str, uid: str) -> None:
        address = free_address()
        server = self._servers[uid] = ThreadingHTTPServer((address, A2A_PORT), _Agent)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "conditions": [condition], "podIP": address, "podIPs": [{"ip": address}]}
        with suppress(Refusal):  # The operator may have deleted the pod meanwhile.
            self._space.admin.merge("Pod", self._space.name, name, {"status": status}, subresource="/status")


@dataclass
class Faults:
    """The fault proxy, in a thread with an event loop of its own, and the wake patches that the API server executed."""

    proxy: FaultProxy
    plan: Plan
    stamps: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The values of the annotation, by agent."""
    _started: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.proxy.executed = self._note
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._started.wait(ceiling()), "the fault proxy did not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(ceiling())

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self.proxy:
            self._started.set()
            await self._stopping.wait()
        await asyncio.sleep(0.3)  # aiohttp closes TLS connections a moment after their session.

    def _note(self, request: Any, body: bytes) -> None:
        if request.method == "PATCH":
            agent = request.path.rpartition("/")[2]
            self.stamps[agent].add(json.loads(body)["metadata"]["annotations"][WAKE])


@dataclass
class GatewayProcess:
    """The gateway behind the fault proxy. It can be killed and started again at the same ports."""

    faults: Faults
    environment: dict[str, str]
    log: Path
    port: int
    ops_port: int

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.controlplane.faulted_gateway", self.faults.proxy.url]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stderr=log, cwd=ROOT)
        wait_until(
            lambda: self._status("readyz", port=self.ops_port)[0] == 200,
            "the gateway is ready",
            shown=self.log.read_text,
            alive=self._assert_running,
            pause=0.1,
        )

    def _assert_running(self) -> None:
        assert self.process.poll() is None, self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(ceiling())

    def send(self, space: str, agent: str, token: str) -> tuple[int, str]:
        """Send a message. Return the status, or 0 without an answer, and the header `Retry-After`."""
        message = {"messageId": f"for {agent}", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "A2A-Version": "1.0"}
        return self._status(f"agents/{space}/{agent}/a2a", json.dumps(call).encode(), headers, port=self.port)

    @staticmethod
    def _status(
        path: str, body: bytes | None = None, headers: dict[str, str] | None = None, *, port: int
    ) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", data=body, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=ceiling()) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers.get("Retry-After", "")
        except OSError:
            return 0, ""
