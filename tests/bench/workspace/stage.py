"""A runner and an executor on one machine, with a client that keeps its connection."""

import hashlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

from fleetwright_workspace.install import install


class WorkspaceStage:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self._token = secrets.token_urlsafe(16)
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "WorkspaceStage":
        self.root.mkdir()
        (self.folder / "tokens").write_text(hashlib.sha256(self._token.encode()).hexdigest() + "\n")
        install(str(self.folder))
        self._start("executor.pyz", "--home=home", "--socket=socket", f"--root={self.root}")
        words = ("--state=state", "--executor=socket", "--tokens=tokens", "--listen=127.0.0.1:0", "--port-file=port")
        self.runner = self._start("-m", "fleetwright_workspace.runner", f"--root={self.root}", *words)
        wait_until((self.folder / "socket").exists, "the executor listens")
        wait_until((self.folder / "port").exists, "the runner listens")
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{(self.folder / 'port').read_text().strip()}",
            headers={"Authorization": f"Bearer {self._token}"},
            trust_env=False,
            timeout=ceiling(),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        for process in self._processes:
            process.terminate()
            process.wait()

    def call(self, name: str, **fields: object) -> dict[str, Any]:
        answer = self.http.post(f"/v1/{name}", json=fields)
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def run(self, command: str) -> dict[str, Any]:
        """Run a command, and return its end."""
        body = {"id": secrets.token_hex(8), "command": command, "timeout_seconds": 3600}
        answer = self.http.post("/v1/exec", json=body)
        end: dict[str, Any] = json.loads(answer.text.splitlines()[-1])["end"]
        return end

    def memory(self, field: str) -> float:
        """Return a field of the runner's memory in MB."""
        lines = Path(f"/proc/{self.runner.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *words], cwd=self.folder, env={**os.environ})
        self._processes.append(process)
        return process
