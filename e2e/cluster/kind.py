"""The `kind` provider: a cluster in docker. It does not touch clusters with another name."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import binaries, docker
from e2e.cluster.audit import Refusal
from e2e.cluster.docker import Docker
from e2e.cluster.identity import name_of
from e2e.cluster.images import Built
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import CHECKOUT, STATE
from e2e.cluster.progress import ClusterError, Progress
from tests.support.machine import ceiling


class Kind:
    name = "kind"
    local_base = False

    def __init__(self, progress: Progress, *, checkout: Path = CHECKOUT, state: Path = STATE) -> None:
        self._progress = progress
        self._state = state
        self._cluster = name_of(checkout)

    def obstacle(self) -> str | None:
        if not docker.answers():
            return "kind needs docker, and `docker info` fails; with root, use CLUSTER=local"
        return binaries.obstacle(("kind", "kubectl", "helm"))

    def engine(self) -> Docker:
        return Docker()

    def up(self) -> None:
        obstacle = self.obstacle()
        if obstacle:
            raise ClusterError(obstacle)
        self._state.mkdir(parents=True, exist_ok=True)
        if self._exists() and not self._healthy():
            self._progress.say("the cluster does not answer; it is created again")
            self._kind("delete", "cluster", f"--name={self._cluster}")
        if not self._exists():
            self._progress.say("creating the cluster")
            self._kind(
                "create",
                "cluster",
                f"--name={self._cluster}",
                f"--wait={ceiling():.0f}s",
                f"--kubeconfig={self._file}",
            )
        else:
            self._kind("export", "kubeconfig", f"--name={self._cluster}", f"--kubeconfig={self._file}")

    def kubectl(self) -> Kubectl:
        if not self._file.exists():
            raise ClusterError("there is no kind cluster: python -m e2e.cluster up --provider kind")
        program = binaries.ensure(["kubectl"], self._progress)["kubectl"]
        return Kubectl(program, self._file, cache=self._state / "kubectl-cache")

    def load(self, built: Sequence[Built]) -> None:
        for image in built:
            self.engine().tag(image.pinned, image.image.reference)
            self._kind("load", "docker-image", *image.names, f"--name={self._cluster}")
            self._progress.say(f"image {image.image.name}: loaded")

    def refusals(self) -> list[Refusal]:
        return []

    def down(self) -> None:
        if self._exists():
            self._kind("delete", "cluster", f"--name={self._cluster}", f"--kubeconfig={self._file}")

    def status(self) -> list[str]:
        if not self._exists():
            return ["no kind cluster"]
        return [f"kind cluster {self._cluster}, {'healthy' if self._healthy() else 'not answering'}"]

    @property
    def _file(self) -> Path:
        return self._state / "kubeconfig"

    def _exists(self) -> bool:
        return self._cluster in self._kind("get", "clusters").split()

    def _healthy(self) -> bool:
        self._kind("export", "kubeconfig", f"--name={self._cluster}", f"--kubeconfig={self._file}")
        waited = self.kubectl().attempt(
            "wait", "--for=condition=Ready", "node", "--all", f"--timeout={ceiling(3):.0f}s"
        )
        return waited.returncode == 0

    def _kind(self, *words: str) -> str:
        program = binaries.ensure(["kind"], self._progress)["kind"]
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"kind {words[0]} {words[1]} failed:\n{done.stderr[-2000:]}")
        return done.stdout
