"""kubectl against one cluster. Refuses the kubeconfig of the environment: the cluster is always named."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster.progress import ClusterError

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class Kubectl:
    program: Path
    kubeconfig: Path
    context: str | None = None
    cache: Path | None = None
    """Where it remembers what the API offers; the user's own folder by default."""

    def run(self, *words: str | Path, stdin: str | None = None, seconds: float = 300) -> str:
        """What it printed; raises with what it complained about."""
        done = self.attempt(*words, stdin=stdin, seconds=seconds)
        if done.returncode:
            raise ClusterError(f"kubectl {' '.join(map(str, words))}: {(done.stderr or done.stdout).strip()[-2000:]}")
        return done.stdout

    def attempt(
        self, *words: str | Path, stdin: str | None = None, seconds: float = 300
    ) -> subprocess.CompletedProcess[str]:
        environment = os.environ | ({"KUBECACHEDIR": str(self.cache)} if self.cache else {})
        which = [f"--kubeconfig={self.kubeconfig}", *([f"--context={self.context}"] if self.context else [])]
        return subprocess.run(
            [self.program, *which, *words],
            input=stdin or "",  # never a question to the terminal
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def apply(self, manifests: Iterable[Manifest]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.run("apply", "--server-side", "--field-manager=fleetwright-cluster", "-f", "-", stdin=json.dumps(items))

    def get(self, *words: str) -> Any:
        return json.loads(self.run("get", *words, "-o", "json"))
