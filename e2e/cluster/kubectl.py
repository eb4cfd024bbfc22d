"""Runs kubectl against one cluster.

The cluster is always named explicitly; the kubeconfig of the environment is ignored.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from e2e.cluster.progress import ClusterError
from tests.support.machine import outer_ceiling

Manifest = Mapping[str, Any]
_FORWARDED = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@dataclass(frozen=True)
class Kubectl:
    program: Path
    kubeconfig: Path
    context: str | None = None
    cache: Path | None = None
    """The discovery cache; by default that of the user."""

    def run(self, *words: str | Path, stdin: str | None = None, seconds: float | None = None) -> str:
        """Return the output.

        Args:
            seconds: The time after which kubectl is ended. By default it may wait for the longest ceiling and report.

        Raises:
            ClusterError: kubectl failed; the message holds the end of its output.
        """
        done = self.attempt(*words, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise ClusterError(f"kubectl {' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def attempt(
        self, *words: str | Path, stdin: str | None = None, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words],
            input=stdin or "",  # kubectl must never prompt on the terminal
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=outer_ceiling() if seconds is None else seconds,
            check=False,
        )

    @contextmanager
    def following(self, *words: str) -> Iterator[IO[str]]:
        """Run a command that does not end by itself, and provide its output until the block ends."""
        with subprocess.Popen([*self._command, *words], env=self._environment, stdout=subprocess.PIPE, text=True) as it:
            try:
                assert it.stdout is not None, "it was asked for"
                yield it.stdout
            finally:
                it.terminate()

    @contextmanager
    def forwarded(self, what: str, port: int, *, namespace: str) -> Iterator[int]:
        """Forward a port of the cluster to this machine until the block ends. Yield the local port."""
        command = [*self._command, "port-forward", what, f":{port}", f"--namespace={namespace}"]
        with subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                said = process.stdout.readline() if process.stdout else ""
                if not (found := _FORWARDED.match(said)):
                    raise ClusterError(f"kubectl port-forward {what} did not begin")
                yield int(found[1])
            finally:
                process.terminate()

    @property
    def _command(self) -> list[str | Path]:
        context = [f"--context={self.context}"] if self.context else []
        return [self.program, f"--kubeconfig={self.kubeconfig}", *context]

    @property
    def _environment(self) -> dict[str, str]:
        return os.environ | ({"KUBECACHEDIR": str(self.cache)} if self.cache else {})

    def apply(self, manifests: Iterable[Manifest]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "--server-side", "--field-manager=fleetwright-cluster", "-f", "-", stdin=json.dumps(items))

    def get(self, *words: str) -> Any:
        return json.loads(self.run("get", *words, "-o", "json"))
