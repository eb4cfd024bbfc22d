"""Finds each program of a cluster: KUBEBUILDER_ASSETS, PATH, our cache, and last a build into that cache.

A program found outside our cache counts only when its version fits the part's rule. Refuses to download
ready-made programs: everything is built from pinned sources or comes from the distribution.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from e2e.cluster import debian, go_build
from e2e.cluster.locking import exclusive
from e2e.cluster.parts import OPTIONAL, PARTS, Part, Unpacked, parse
from e2e.cluster.paths import cache
from e2e.cluster.progress import Progress


def ensure(names: Iterable[str], progress: Progress) -> dict[str, Path]:
    """Return the path of every program of the named parts. Build missing programs, in one process at a time."""
    paths: dict[str, Path] = {}
    for part in _named(names):
        folder = find(part) or _make(part, progress)
        paths |= {program: folder / program for program in part.programs}
    return paths


def find(part: Part) -> Path | None:
    return next((folder for folder in _candidates(part) if _usable(part, folder)), None)


def obstacle(names: Iterable[str]) -> str | None:
    """Return the reason why `ensure` cannot provide a missing program, or None. This function starts no build."""
    missing = [part for part in _named(names) if not find(part)]
    if any(isinstance(part.recipe, Unpacked) for part in missing) and not shutil.which("apt-get"):
        return "not on PATH and not to be had without apt-get: " + ", ".join(part.name for part in missing)
    return None


def _named(names: Iterable[str]) -> list[Part]:
    """Return the parts in build order."""
    asked = set(names)
    return [part for part in (*PARTS.values(), *OPTIONAL.values()) if part.name in asked]


def _candidates(part: Part) -> Iterator[Path]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        yield Path(assets)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (Path(folder) / part.name).exists():
            yield Path(folder)
    yield _cached(part)


def _cached(part: Part) -> Path:
    return cache() / "bin" / f"{part.name}-{part.version}"


def _usable(part: Part, folder: Path) -> bool:
    if not all(os.access(folder / program, os.X_OK) for program in part.programs):
        return False
    return folder == _cached(part) or _fits(part, folder / part.name)


def _fits(part: Part, program: Path) -> bool:
    try:
        said = subprocess.run([program, *part.ask], capture_output=True, text=True, timeout=20, check=False)
        return part.rule.accepts(parse(said.stdout + said.stderr))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def _make(part: Part, progress: Progress) -> Path:
    final = _cached(part)
    with exclusive(final.parent, progress):
        if _usable(part, final):  # another process built it while we waited
            return final
        started = progress.clock()
        progress.say(f"{part.name} {part.version}: not on this machine ({part.rule.words} would do), making it")
        fresh = final.with_name(f".{final.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        if isinstance(part.recipe, Unpacked):
            debian.unpack(part.recipe, fresh)
        else:
            go_build.build(part.recipe, fresh, name=part.name, progress=progress)
        shutil.rmtree(final, ignore_errors=True)
        fresh.rename(final)
        progress.say(f"{part.name} {part.version}: made in {progress.clock() - started:.0f} s")
        return final


def tidy(progress: Progress) -> None:
    """Remove the build caches (gigabytes) once every program exists and no build runs."""
    if (cache() / "go").exists() and all(find(part) for part in PARTS.values()):
        with exclusive(cache() / "bin", progress):
            progress.say("every program exists: removing the build caches")
            go_build.forget(progress)
