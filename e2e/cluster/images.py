"""Builds the images of `image_list` when their content has changed, and writes the archives that a provider loads.

Every image has a digest of its inputs, so unchanged sources build nothing, in any checkout. The provider decides how
its cluster loads an image.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e.cluster import base_image, binaries, debian
from e2e.cluster.image_list import IMAGES, Image, digest, files
from e2e.cluster.locking import exclusive
from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.progress import ClusterError, Progress

PUBLISHED_BASE = "docker.io/library/python:3.13-slim"
VERSIONS_KEPT = 3  # more than one, because checkouts share the cache


class Engine(Protocol):
    """An image builder that uses a folder and a Containerfile: buildah or docker."""

    def has(self, tag: str) -> bool: ...
    def build(self, context: Path, containerfile: Path, *, tag: str, arguments: dict[str, str]) -> None: ...
    def archive(self, tag: str, *, into: Path) -> None: ...
    def compressed_size(self, tag: str) -> int: ...
    def forget_older(self, name: str, *, keep: int) -> None: ...


@dataclass(frozen=True)
class Built:
    image: Image
    digest: str

    @property
    def pinned(self) -> str:
        return self.image.pinned(self.digest)

    @property
    def names(self) -> tuple[str, str]:
        return self.image.reference, self.pinned


class Images:
    def __init__(self, engine: Engine, progress: Progress, *, local_base: bool) -> None:
        self._engine = engine
        self._progress = progress
        self._local_base = local_base

    def build(self, names: Iterable[str]) -> list[Built]:
        """Build the images in the order of the list, parents first. Wait if another process is building."""
        wanted = set(names)
        wanted |= {IMAGES[name].parent or name for name in wanted}
        with exclusive(cache() / "images", self._progress):
            built: dict[str, Built] = {}
            for image in IMAGES.values():
                if image.name in wanted:
                    built[image.name] = self._build(image, built)
            return list(built.values())

    def archive(self, built: Built) -> Path:
        """Return a file that contains the image under its pinned name."""
        folder = cache() / "images"
        path = folder / f"{built.image.name}-{built.digest}.tar"
        with exclusive(folder, self._progress):
            if path.exists():
                return path
            fresh = path.with_suffix(".new")
            self._engine.archive(built.pinned, into=fresh)
            fresh.rename(path)
            older = sorted(folder.glob(f"{built.image.name}-*.tar"), key=lambda file: -file.stat().st_mtime)
            for file in older[VERSIONS_KEPT:]:
                file.unlink()
        return path

    def compressed_size(self, built: Built) -> int:
        return self._engine.compressed_size(built.pinned)

    def _build(self, image: Image, built: dict[str, Built]) -> Built:
        parent = built[image.parent].pinned if image.parent else None
        base = self._base() if image.base and not parent else None
        programs = binaries.ensure(image.programs, self._progress) if image.programs else {}
        versions = tuple(f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in programs.values())
        inputs = tuple(word for word in (image.name, base, parent, *versions) if word)
        result = Built(image, digest(CHECKOUT, image, inputs=inputs))
        if self._engine.has(result.pinned):
            return result
        started = self._progress.clock()
        self._progress.say(f"building image {image.name}")
        arguments = {name: value for name, value in (("BASE", base), ("AGENT", parent)) if value}
        with tempfile.TemporaryDirectory(prefix="fleetwright-image-") as folder:
            context = Path(folder)
            _fill(context, image, programs)
            self._engine.build(context, context / image.containerfile, tag=result.pinned, arguments=arguments)
        self._engine.forget_older(image.reference.rpartition(":")[0], keep=VERSIONS_KEPT)
        self._progress.say(f"image {image.name}: built in {self._progress.clock() - started:.0f} s")
        return result

    def _base(self) -> str:
        if not self._local_base:
            return PUBLISHED_BASE
        tag = f"localhost/fleetwright-base:{base_image.key()}"
        if not self._engine.has(tag):
            debian.install(debian.IMAGE_PACKAGES, self._progress)
            folder = base_image.context(self._progress)
            self._engine.build(folder, folder / "Containerfile", tag=tag, arguments={})
        return tag


def _fill(context: Path, image: Image, programs: dict[str, Path]) -> None:
    for path in files(CHECKOUT, image.inputs):
        (context / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(CHECKOUT / path, context / path, follow_symlinks=False)
    for name in image.programs:
        shutil.copy2(programs[name], context / name)
    for name in image.compiled:
        source = (context / image.containerfile).parent / f"{name}.c"
        command = ["gcc", "-static", "-Os", "-s", "-o", str(context / name), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"gcc could not compile {name}.c:\n{done.stderr[-1000:]}")
