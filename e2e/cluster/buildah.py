"""Builds images without a container daemon.

Layers are kept in the project's cache, not in the machine's image store.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.cluster import uv
from e2e.cluster.paths import cache
from e2e.cluster.progress import ClusterError

# The results of build stages, which speed up the next build. Beyond this number they are all deleted together.
STAGES_KEPT = 60
CERTIFICATES = ("/etc/ssl/certs", "/usr/share/ca-certificates")


class Buildah:
    def __init__(self) -> None:
        self._store = cache() / "containers"

    def has(self, tag: str) -> bool:
        return self._try("inspect", "--type=image", tag).returncode == 0

    def build(self, context: Path, containerfile: Path, *, tag: str, arguments: dict[str, str]) -> None:
        self._run(
            "bud",
            "--layers",
            "--format=oci",
            "--pull-never" if self._is_local(arguments) else "--pull",
            *(f"--volume={folder}:{folder}:ro" for folder in CERTIFICATES if Path(folder).exists()),
            f"--build-context=uv={uv.folder()}",
            "--build-arg=UV_SYSTEM_CERTS=1",
            *(f"--build-arg={name}={value}" for name, value in arguments.items()),
            f"--file={containerfile}",
            f"--tag={tag}",
            str(context),
        )

    def archive(self, tag: str, *, into: Path) -> None:
        """Write an uncompressed OCI archive, because a program on the same machine reads it immediately."""
        into.unlink(missing_ok=True)
        self._run("push", "--disable-compression", "--quiet", tag, f"oci-archive:{into}:{tag}")

    def push(self, tag: str, *, to: str) -> str:
        """Push the image to a registry without TLS. Return its digest there."""
        with tempfile.TemporaryDirectory() as folder:
            digest = Path(folder, "digest")
            self._run("push", "--quiet", "--tls-verify=false", f"--digestfile={digest}", tag, f"docker://{to}")
            return digest.read_text().strip()

    def compressed_size(self, tag: str) -> int:
        """Return the number of bytes that a registry would store and a node would pull."""
        folder = self._store / "measured"
        shutil.rmtree(folder, ignore_errors=True)
        self._run("push", "--quiet", tag, f"oci:{folder}:measured")
        total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        shutil.rmtree(folder)
        return total

    def forget_older(self, name: str, *, keep: int) -> None:
        """Delete all but the newest versions of an image, and the layers that only the deleted versions have."""
        listed = self._run("images", "--format", "{{.Name}}:{{.Tag}}", "--filter", f"reference={name}")
        for tag in [tag for tag in listed.split() if tag.startswith(f"{name}:")][keep:]:
            self._try("rmi", tag)
        if len(self._run("images", "--quiet", "--filter", "dangling=true").split()) > STAGES_KEPT:
            self._try("rmi", "--prune")

    @staticmethod
    def _is_local(arguments: dict[str, str]) -> bool:
        return all(value.startswith("localhost/") for name, value in arguments.items() if name in {"BASE", "AGENT"})

    def _run(self, *words: str) -> str:
        done = self._try(*words)
        if done.returncode:
            raise ClusterError(f"buildah {words[0]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def _try(self, *words: str) -> subprocess.CompletedProcess[str]:
        self._store.mkdir(parents=True, exist_ok=True)
        place = [f"--root={self._store}", f"--runroot={self._store}/run", f"--storage-driver={_driver(self._store)}"]
        return subprocess.run(
            ["nice", "-n", "10", "buildah", *place, *words],
            env=os.environ | {"BUILDAH_ISOLATION": "chroot"},
            capture_output=True,
            text=True,
            check=False,
        )


@functools.cache
def _driver(store: Path) -> str:
    """Return `overlay`, which shares layers, or `vfs`, which copies them, if the folder's file system does not support
    overlay.
    """
    probe = ["buildah", f"--root={store}", f"--runroot={store}/run", "--storage-driver=overlay", "info"]
    return "vfs" if subprocess.run(probe, capture_output=True, check=False).returncode else "overlay"
