"""The two servers as processes: start, readiness, memory and stop."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from e2e.cluster.ports import free_port, free_ports
from tests.support.machine import ceiling
from tests.support.waiting import NotInTimeError, within

CHECKOUT = Path(__file__).resolve().parents[3]
TOKEN = "token-of-the-benchmark"
_PATH = os.pathsep.join(map(str, (CHECKOUT, CHECKOUT / "agent_image/src", CHECKOUT / "libs/a2a/src")))
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Served:
    """A server process and its context manager, which returns once the server answers."""

    words: list[str]
    port: int
    health: int
    ready: str = "/healthz"
    start_seconds: float = 0.0
    ready_seconds: float = 0.0
    environment: Mapping[str, str] = field(default_factory=lambda: {"PYTHONPATH": _PATH})

    async def __aenter__(self) -> Self:
        began = time.perf_counter()
        environment = {**os.environ, **self.environment}
        self._process = await asyncio.create_subprocess_exec(
            *self.words, cwd=CHECKOUT, env=environment, stdout=asyncio.subprocess.DEVNULL
        )
        await self._until("/healthz", began)
        self.start_seconds = time.perf_counter() - began
        await self._until(self.ready, began)
        self.ready_seconds = time.perf_counter() - began
        return self

    async def _until(self, path: str, began: float) -> None:
        while not await self._answers(path):
            if self._process.returncode is not None or time.perf_counter() - began > ceiling():
                raise RuntimeError(f"{self.words} does not answer; exit code {self._process.returncode}")
            await asyncio.sleep(0.002)

    async def __aexit__(self, *about: object) -> None:
        self._process.terminate()
        try:
            async with within("the server ends"):
                await self._process.wait()
        except NotInTimeError:
            self._process.kill()
            await self._process.wait()

    async def _answers(self, path: str) -> bool:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.health)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            line = await reader.readline()
            writer.close()
            return b"200" in line
        return False

    def pss_kib(self) -> int:
        for line in Path(f"/proc/{self._process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
        raise RuntimeError("no PSS")

    def rss_bytes(self, *, peak: bool = False) -> int:
        """Return the resident memory now, or its peak since the process began."""
        wanted = "VmHWM:" if peak else "VmRSS:"
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(wanted):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RSS")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def reference(python: Path, folder: Path, *, durable: bool = False) -> Served:
    port = free_port()
    database = [str(folder / f"reference-{port}.db")] if durable else []
    return Served([str(python), "tests/bench/echo/reference.py", str(port), *database], port, port)


def ours(python: Path, folder: Path, *, durable: bool = False) -> Served:
    port, ops = free_ports()
    root = _mounted(folder / f"ours-{port}")
    words = [str(python), "-m", "tests.bench.echo.ours", str(root), str(port), str(ops)]
    return Served([*words, "disk" if durable else "memory"], port, ops, "/readyz")


def shipped(python: Path, folder: Path, *, model: str = "http://127.0.0.1:9") -> Served:
    """The command of the image, with the model loop."""
    port, ops = free_ports()
    root = _mounted(folder / f"shipped-{port}", model=model)
    where = ["--root", str(root), "--host", "127.0.0.1", "--port", str(port), "--ops-port", str(ops)]
    return Served([str(python), "-m", "fleetwright_agent", "serve", *where], port, ops, "/readyz")


def _mounted(root: Path, *, model: str = "http://127.0.0.1:9") -> Path:
    """Write an agent's files as the operator mounts them."""
    etc = root / "etc/fleetwright"
    (root / "var/lib/fleetwright").mkdir(parents=True)
    called = {"name": "m", "baseUrl": model, "contextWindow": 100_000, "maxOutputTokens": 100, "timeoutSeconds": 5}
    limits = {
        "maxConcurrentTurns": 10_000,
        "maxStreamsPerCaller": 10_000,
        "maxTasksPerCaller": 10_000,
        "maxWaitingTasksPerCaller": 100_000,
    }
    config = {
        "limits": limits,
        "version": 1, "revision": "0", "name": "echo", "namespace": "bench", "instructions": "Repeat.",
        "url": "http://echo", "model": called, "drainSeconds": 1,
    }  # fmt: skip
    card = {
        "name": "echo", "description": "Repeats.", "version": "1",
        "supportedInterfaces": [{"url": "http://echo/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": "chat", "description": "Talk.", "tags": ["chat"]}],
    }  # fmt: skip
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    callers = {"version": 1, "callers": [{"kind": "client", "name": "bench", "sha256": digest}]}
    _write(etc / "agent.json", config)
    _write(etc / "card/agent-card.json", card)
    _write(etc / "auth/callers.json", callers)
    return root


def _write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
