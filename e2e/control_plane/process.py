"""One operator process: it can be started, stopped and killed; its metrics and its log can be read."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster.ports import free_port
from e2e.cluster.processes import start_time
from e2e.control_plane.installation import ACCOUNT, Installation
from tests.support.machine import ceiling

_AS_SHIPPED = """
import runpy, sys
sys.modules["kubernetes"] = None
runpy.run_module("fleetwright_operator", run_name="__main__", alter_sys=True)
"""
"""kopf imports the official client if it is installed. The operator's image has none, but the test environment does."""
OPERATOR = (sys.executable, "-c", _AS_SHIPPED)

_DELAYED_WRITE = "repeats, although nothing has changed"
"""A part of the log lines about delayed writes."""


class OperatorProcess:
    def __init__(
        self,
        folder: Path,
        installation: Installation,
        *,
        server: str,
        ca: Path | None = None,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = OPERATOR,
    ) -> None:
        """`server` is the API address for the operator: the API server, or a proxy that speaks plain HTTP."""
        self._folder = folder
        self._command = command
        self.log = folder / "operator.log"
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "FLEETWRIGHT"))},
            "KUBECONFIG": str(_kubeconfig(folder / "kubeconfig", server=server, ca=ca, token=installation.token)),
            "POD_NAME": folder.name,
            "POD_NAMESPACE": installation.namespace,
            "FLEETWRIGHT_LEASE_NAME": ACCOUNT,
            "FLEETWRIGHT_OPS_PORT": str(self.port),
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        return self._running.poll()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stderr=log, stdout=log)

    async def started(self) -> None:
        """Return when the process is the leader and has listed all kinds."""
        self.start()
        await self.leading()

    async def leading(self, *, seconds: float | None = None, pause: float = 0.05) -> None:
        """Wait until the process leads, for these seconds or the ceiling. A failure shows the end of its log."""
        for _ in range(int((seconds or ceiling()) / pause)):
            if self.exit_code is not None:
                break
            if (await self.metrics()).get("fleetwright_leader") == 1.0 and await self.ask("/readyz") == "ok":
                return
            await asyncio.sleep(pause)
        raise RuntimeError(f"the operator does not lead:\n{self.log.read_text()[-4000:]}")

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.send(how)
        return await asyncio.to_thread(self._running.wait, ceiling())

    def send(self, how: signal.Signals) -> None:
        self._running.send_signal(how)

    def kill_if_alive(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    async def metrics(self) -> dict[str, float]:
        lines = [line for line in (await self.ask("/metrics")).splitlines() if line and not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    async def total(self, name: str) -> float:
        """Return the sum of a counter over its labels."""
        return sum(value for key, value in (await self.metrics()).items() if key.partition("{")[0] == name)

    async def ask(self, path: str) -> str:
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}{path}")

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process since its start, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return the current resident memory of the process."""
        line = next(line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if "VmRSS" in line)
        return int(line.split()[1]) / 1024

    @property
    def alive(self) -> bool:
        return self._process is not None and start_time(self._process.pid) is not None

    def complaints(self) -> list[str]:
        """Return the lines of the log that no fault explains.

        They name a missing permission, an exception in a reconcile, or a write that repeats.
        """
        lines = self._read_records()
        failed = [line for line in lines if _missing_right(line) or line["message"] == "reconcile failed"]
        return [*map(json.dumps, failed), *self.delayed_writes()]

    def delayed_writes(self) -> list[str]:
        """Return the lines of the log about writes that were delayed because they repeat."""
        return [json.dumps(line) for line in self._read_records() if _DELAYED_WRITE in json.dumps(line)]

    def _read_records(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the operator was never started")
        return self._process


def _missing_right(line: dict[str, str]) -> bool:
    text = json.dumps(line).lower()
    return "is forbidden: user" in text and "being terminated" not in text


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=ceiling()) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def _kubeconfig(path: Path, *, server: str, ca: Path | None, token: str) -> Path:
    cluster = {"server": server, **({"certificate-authority": str(ca)} if ca else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "operator"}}],
        "current-context": "plane",
    }
    path.write_text(json.dumps(document))
    return path
