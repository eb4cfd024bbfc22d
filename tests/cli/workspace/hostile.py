"""A checkout whose commands are hostile: its sandbox, the programs outside that they want to fool, and the traces."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.support.cli.coder import AGENT, begin_checkout, git
from tests.support.cli.dev_run import INSTALLED, DevRun, run_dev
from tests.support.cli.fleet import environment
from tests.support.machine import ceiling

SETTINGS = ("-c", "protocol.file.allow=always")


@dataclass(frozen=True)
class HostileShop:
    """A checkout in which manifests, the state of the run, and all that a repository may name lie."""

    root: Path
    checkout: Path
    trace: Path
    """A file that only a program outside of the sandbox can create."""

    @property
    def state(self) -> Path:
        return self.checkout / "build/state"

    def program(self) -> str:
        return f"touch {self.trace}"

    def take_trace(self) -> bool:
        """Return whether a program outside has run, and remove its trace."""
        has_run = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        return has_run

    def environment(self, **changes: str) -> dict[str, str]:
        variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", **changes}
        return environment(self.root / "home", **variables)

    def run_outside(self, *command: str, folder: str = ".") -> "subprocess.CompletedProcess[str]":
        """Run a program as the user does."""
        identity = {f"GIT_{who}_{what}": "t@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return subprocess.run(
            command,
            cwd=self.checkout / folder,
            env=self.environment(**identity),
            capture_output=True,
            text=True,
            check=False,
            timeout=ceiling(),
        )

    @contextmanager
    def running(self, *, program: Path | None = None, **changes: str) -> Iterator[DevRun]:
        """Run the fleet in the checkout, as the user starts it. `program` replaces the installed one."""
        words = ("--workspace", f"coder={self.checkout}")
        log = self.root / f"dev-{secrets.token_hex(4)}.log"
        with run_dev(
            self.checkout / "agents",
            *words,
            state=self.state,
            log=log,
            environment=self.environment(**changes),
            program=program or INSTALLED,
            current=self.checkout,
        ) as run:
            yield run

    def call(self, name: str, **fields: Any) -> httpx.Response:
        """Call the runner of the workspace, as the agent does."""
        folder = self.state / "agents/coder/etc/fleetwright"
        url = json.loads((folder / "agent.json").read_text())["workspace"]["url"]
        headers = {"Authorization": f"Bearer {(folder / 'auth/workspace').read_text()}"}
        return httpx.post(f"{url}/v1/{name}", json=fields, headers=headers, trust_env=False, timeout=ceiling())

    def call_until_lost(self, command: str) -> None:
        """Run a command that ends with the runner."""
        with contextlib.suppress(httpx.TransportError):
            self.call("exec", id=secrets.token_hex(8), command=command, timeout_seconds=3600)

    def _execute(self, command: str) -> list[dict[str, Any]]:
        """Return the objects with which the runner answers. The last one has the key `end` if the command ran."""
        answer = self.call("exec", id=secrets.token_hex(8), command=command, timeout_seconds=60)
        return [json.loads(line) for line in answer.text.splitlines()]

    def runs_commands(self) -> bool:
        """Return whether the sandbox runs a command. While it starts, the answer is an error, or none."""
        try:
            last = self._execute("true")[-1]
        except httpx.TransportError:
            return False
        return "end" in last and last["end"]["exit"] == 0

    def run_inside(self, command: str) -> tuple[int, str]:
        """Run a command in the sandbox, and return its exit status and its output."""
        lines = self._execute(command)
        return lines[-1]["end"]["exit"], "".join(line.get("text", "") for line in lines)


def begin_hostile_shop(root: Path) -> HostileShop:
    """Make a checkout with a submodule, hooks, a text conversion, included settings, and manifests."""
    shop = HostileShop(root, root / "checkout", root / "RAN")
    (root / "home").mkdir()
    begin_checkout(shop.checkout)
    _write(root / "library/a.txt", "a\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        git(root / "library", *words)
    _write(shop.checkout / "agents/coder.yaml", AGENT.replace("EDITS", "Auto"))
    _write(shop.checkout / "settings/git", "[core]\n\tquotePath = false\n")
    _write(shop.checkout / "tools/convert", "#!/bin/sh\ncat $1\n", mode=0o755)
    _write(shop.checkout / "githooks/pre-commit", "#!/bin/sh\n", mode=0o755)
    _write(shop.checkout / ".gitattributes", "*.txt diff=text\n")
    _write(shop.checkout / "notes.txt", "one\n")
    git(shop.checkout, *SETTINGS, "submodule", "--quiet", "add", str(root / "library"), "lib")
    git(shop.checkout, "add", ".")
    git(shop.checkout, "commit", "-qm", "Add the rest")
    for key, value in (
        ("core.hooksPath", "githooks"),
        ("include.path", "../settings/git"),
        ("include.path", "../settings/missing"),
        ("diff.text.textconv", "tools/convert"),
    ):
        git(shop.checkout, "config", "--add", key, value)
    _write(shop.checkout / "notes.txt", "two\n")
    return shop


def install_fleetwright(environment: Path) -> Path:
    """Make an environment with the packages of this one, and return the program in it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=ceiling())
    packages = sysconfig.get_paths()["purelib"]
    (folder,) = environment.glob("lib/python*/site-packages")
    (folder / "all.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
    program = environment / "bin/fleetwright"
    _write(program, f"#!{environment}/bin/python\nfrom fleetwright_cli.__main__ import main\nmain()\n", mode=0o755)
    return program


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chmod(path, mode)  # noqa: PTH101
