"""The `existing` provider: the cluster of the current kubeconfig context. It must be requested by name.

Nodes pull the published images, unless IMAGE_LOAD_COMMAND loads the built ones. The shell runs this command for each
image, with IMAGE_ARCHIVE (an OCI or docker archive), IMAGE (the name in the archive) and IMAGE_ALIAS (the other name
that pods use). This provider never creates, changes or deletes the cluster itself.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster import binaries, docker
from e2e.cluster.audit import Refusal
from e2e.cluster.buildah import Buildah
from e2e.cluster.docker import Docker
from e2e.cluster.files import write
from e2e.cluster.images import Built, Images
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import STATE
from e2e.cluster.progress import ClusterError, Progress

LOAD = "IMAGE_LOAD_COMMAND"


class Existing:
    name = "existing"

    def __init__(self, progress: Progress, *, environment: Mapping[str, str] = os.environ, state: Path = STATE) -> None:
        self._progress = progress
        self._environment = environment
        self._chosen = state / "context.json"

    @property
    def local_base(self) -> bool:
        return not docker.answers()

    def engine(self) -> Docker | Buildah | None:
        if LOAD not in self._environment:
            return None
        return Docker() if docker.answers() else Buildah()

    def obstacle(self) -> str | None:
        if not self._kubeconfig.is_file():
            return f"KUBECONFIG must name one file that exists, not {str(self._kubeconfig)!r}"
        return binaries.obstacle(("kubectl", "helm"))

    @property
    def _kubeconfig(self) -> Path:
        return Path(self._environment.get("KUBECONFIG") or Path.home() / ".kube" / "config")

    def up(self) -> None:
        """Store the current context, so that `down` uses the same cluster even if the context has changed by then."""
        obstacle = self.obstacle()
        if obstacle:
            raise ClusterError(obstacle)
        asked = Kubectl(self._program(), self._kubeconfig).run("config", "current-context").strip()
        self._chosen.parent.mkdir(parents=True, exist_ok=True)
        write(self._chosen, json.dumps({"kubeconfig": str(self._kubeconfig.resolve()), "context": asked}))
        self.kubectl().run("version")
        self._progress.say(f"using the cluster of context {asked}")

    def kubectl(self) -> Kubectl:
        if not self._chosen.exists():
            raise ClusterError("no existing cluster was chosen: python -m e2e.cluster up --provider existing")
        chosen = json.loads(self._chosen.read_text())
        return Kubectl(self._program(), Path(chosen["kubeconfig"]), chosen["context"])

    def load(self, built: Sequence[Built]) -> None:
        engine = self.engine()
        if engine is None:
            return
        images = Images(engine, self._progress, local_base=self.local_base)
        for image in built:
            names = {"IMAGE_ARCHIVE": str(images.archive(image)), "IMAGE": image.pinned}
            environment = {**self._environment, **names, "IMAGE_ALIAS": image.image.reference}
            command = ["sh", "-c", self._environment[LOAD]]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ClusterError(f"{LOAD} failed for {image.image.name}:\n{done.stderr[-1500:]}")
            self._progress.say(f"image {image.image.name}: loaded")

    def refusals(self) -> list[Refusal]:
        return []

    def down(self) -> None:
        self._chosen.unlink(missing_ok=True)

    def status(self) -> list[str]:
        if not self._chosen.exists():
            return ["no existing cluster is used"]
        return [f"existing cluster of context {json.loads(self._chosen.read_text())['context']}"]

    def _program(self) -> Path:
        return binaries.ensure(["kubectl"], self._progress)["kubectl"]
