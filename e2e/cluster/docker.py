"""Builds images with docker, for `kind` and for clusters that load images from docker. It does not start docker."""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.cluster import uv
from e2e.cluster.progress import ClusterError
from tests.support.machine import machine_factor


def answers() -> bool:
    if not shutil.which("docker"):
        return False
    try:
        return (
            subprocess.run(
                ["docker", "info"], capture_output=True, timeout=20 * machine_factor(), check=False
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        return False


class Docker:
    def has(self, tag: str) -> bool:
        return self._try("image", "inspect", tag).returncode == 0

    def build(self, context: Path, containerfile: Path, *, tag: str, arguments: dict[str, str]) -> None:
        self._run(
            "build",
            f"--build-context=uv={uv.folder()}",
            *(f"--build-arg={name}={value}" for name, value in arguments.items()),
            f"--file={containerfile}",
            f"--tag={tag}",
            str(context),
        )

    def tag(self, tag: str, other: str) -> None:
        self._run("tag", tag, other)

    def archive(self, tag: str, *, into: Path) -> None:
        self._run("save", f"--output={into}", tag)

    def compressed_size(self, tag: str) -> int:
        with subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE) as saved:
            packed = subprocess.run(["gzip", "-c"], stdin=saved.stdout, capture_output=True, check=True)
        return len(packed.stdout)

    def forget_older(self, name: str, *, keep: int) -> None:
        """docker omits the registry host from a name if it is docker's own registry."""
        listed = self._run("image", "ls", "--format={{.Repository}}:{{.Tag}}", name).split()
        for tag in [tag for tag in listed if "-" in tag.rpartition(":")[2]][keep:]:
            self._try("rmi", tag)

    def _run(self, *words: str) -> str:
        done = self._try(*words)
        if done.returncode:
            raise ClusterError(f"docker {words[0]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    @staticmethod
    def _try(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DOCKER_BUILDKIT": "1"}
        return subprocess.run(["docker", *words], env=environment, capture_output=True, text=True, check=False)
