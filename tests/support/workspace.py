"""A workspace whose runner and executor run as local processes."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

from fleetwright_workspace.install import install

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "workspace/src"
TOKEN = secrets.token_urlsafe(16)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class LocalWorkspace:
    """A root, a runner and an executor. `stop` ends the processes that this object started."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.folder = folder
        self.python = python
        self.tokens = folder / "tokens"
        self.tokens.write_text(f"{digest_of(TOKEN)}\n")
        self.executor = self.start_executor()
        self.runner = self.start_runner()

    def start_executor(self, *options: str) -> subprocess.Popen[bytes]:
        # A socket path has at most 107 characters, so the process gets a relative one.
        (self.folder / "socket").unlink(missing_ok=True)
        install(str(self.folder))
        words = ["executor.pyz", "--socket", "socket", "--root", str(self.root), "--home", str(self.folder / "home")]
        command = [*self.executor_prefix(), self.python, "-S", "-E", *words, *options]
        process = subprocess.Popen(command, cwd=self.folder)
        wait_until((self.folder / "socket").exists, "the executor listens")
        return process

    def start_runner(self) -> subprocess.Popen[bytes]:
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        words = ["--root", str(self.root), "--state", "state", "--executor", "socket", "--tokens", str(self.tokens)]
        process = subprocess.Popen(
            [
                *self.runner_prefix(),
                *(self.python, "-m", "fleetwright_workspace.runner", *words),
                *("--listen=127.0.0.1:0", "--port-file=port"),
            ],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
        wait_until(port_file.exists, "the runner listens")
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port_file.read_text().strip()}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            trust_env=False,
            timeout=ceiling(),
        )
        return process

    def executor_prefix(self) -> list[str]:
        """Return the command that starts the executor, if it does not start directly."""
        return []

    def runner_prefix(self) -> list[str]:
        """Return the command that starts the runner, if it does not start directly."""
        return []

    def call(self, name: str, **fields: object) -> dict[str, Any]:
        answer = self.http.post(f"/v1/{name}", json=fields)
        body: dict[str, Any] = answer.json()
        return body | ({} if answer.status_code == 200 else {"status": answer.status_code})

    def run(self, command: str | list[str], *, seconds: float = 30, **fields: object) -> list[dict[str, Any]]:
        """Run a command and return the lines of the answer without heartbeats."""
        key = "command" if isinstance(command, str) else "argv"
        body = {"id": secrets.token_hex(8), key: command, "timeout_seconds": seconds, **fields}
        answer = self.http.post("/v1/exec", json=body)
        lines = [json.loads(line) for line in answer.text.splitlines()]
        return [line for line in lines if "heartbeat" not in line]

    def stop(self) -> None:
        self.http.close()
        for process in (self.runner, self.executor):
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(ceiling())


def output_of(lines: list[dict[str, Any]], stream: str = "stdout") -> str:
    return "".join(line.get("text", "") for line in lines if line.get("stream") == stream)


def end_of(lines: list[dict[str, Any]]) -> dict[str, Any]:
    end: dict[str, Any] = lines[-1]["end"]
    return end
