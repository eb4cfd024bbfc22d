"""Finds each program of a cluster, and builds what is missing into our cache.

Programs of a distribution or of a mounted cache come first: FLEETWRIGHT_PROGRAMS, KUBEBUILDER_ASSETS, PATH, and the
store of setup-envtest. A program found there counts only if its version fits the part's rule. Our own cache comes
last, and needs no such check. No prebuilt program is downloaded, except packages of the distribution: a missing program
is built from pinned sources or unpacked from such a package. Builds that share no source run side by side if the memory
suffices.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import cgroups, debian, go_build
from e2e.cluster.locking import exclusive
from e2e.cluster.parts import OPTIONAL, PARTS, GoTool, Part, Unpacked, parse
from e2e.cluster.paths import cache
from e2e.cluster.progress import ClusterError, Progress
from tests.support.machine import machine_factor

PROGRAMS_VARIABLE = "FLEETWRIGHT_PROGRAMS"
"""A list of folders like PATH: caches of another machine, or folders that contain the programs themselves."""
_VERSION_SECONDS = 20.0
"""The time in which a program prints its version."""
BUILD_BYTES = 3 * 2**30
"""The memory that one build may need. The linker of the API server needs most of it."""


@dataclass(frozen=True)
class _Build:
    """Parts that one command builds."""

    name: str
    parts: tuple[Part, ...]


def ensure(names: Iterable[str], progress: Progress) -> dict[str, Path]:
    """Return the path of every program of the named parts. Build those that are missing, and no others.

    Raises:
        ClusterError: if a name is unknown, a build fails, or the cache cannot be written.
    """
    parts = _parts_named(names)
    missing = [part for part in parts if not find(part)]
    if missing:
        try:
            _build_missing(missing, progress)
        except OSError as error:
            place = f"{cache()} cannot keep the programs; XDG_CACHE_HOME names the folder of another cache"
            raise ClusterError(f"{place}: {error}") from error
    folders = {part: find(part) or _cached(part) for part in parts}
    return {program: folder / program for part, folder in folders.items() for program in part.programs}


def find(part: Part) -> Path | None:
    return next((folder for folder in _candidates(part) if _usable(part, folder)), None)


def missing_programs(names: Iterable[str]) -> list[str]:
    """Return the names of the parts that `ensure` would have to build."""
    return [part.name for part in _parts_named(names) if not find(part)]


def obstacle(names: Iterable[str]) -> str | None:
    """Return the reason why `ensure` cannot provide a missing program, or None. This function starts no build."""
    missing = [part for part in _parts_named(names) if not find(part)]
    if any(isinstance(part.recipe, Unpacked) for part in missing) and not shutil.which("apt-get"):
        parts = ", ".join(part.name for part in missing)
        return f"not found, and only apt-get can provide them: {parts}; put them on PATH or into {PROGRAMS_VARIABLE}"
    return None


def _parts_named(names: Iterable[str]) -> list[Part]:
    """Return the parts with these names, or that have programs with these names, in build order."""
    asked = set(names)
    parts = [part for part in (*PARTS.values(), *OPTIONAL.values()) if asked & set(part.programs)]
    if unknown := asked.difference(*(part.programs for part in parts)):
        known = ", ".join((*PARTS, *OPTIONAL))
        raise ClusterError(f"no program of a cluster is named {', '.join(sorted(unknown))}; there are {known}")
    return parts


def _candidates(part: Part) -> Iterator[Path]:
    for folder in _folders_of(PROGRAMS_VARIABLE):
        yield folder / _folder_name(part)
        yield folder / "bin" / _folder_name(part)
        yield folder
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        yield Path(assets)
    for folder in _folders_of("PATH"):
        if (folder / part.name).exists():
            yield folder
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    yield from sorted(data.glob("kubebuilder-envtest/k8s/*"), reverse=True)
    yield _cached(part)


def _folders_of(variable: str) -> list[Path]:
    return [Path(folder) for folder in os.environ.get(variable, "").split(os.pathsep) if folder]


def _folder_name(part: Part) -> str:
    return f"{part.name}-{part.version}"


def _cached(part: Part) -> Path:
    return cache() / "bin" / _folder_name(part)


def _usable(part: Part, folder: Path) -> bool:
    if not all(os.access(folder / program, os.X_OK) for program in part.programs):
        return False
    return folder == _cached(part) or _fits(part, folder / part.name)


def _fits(part: Part, program: Path) -> bool:
    try:
        limit = _VERSION_SECONDS * machine_factor()
        said = subprocess.run([program, *part.ask], capture_output=True, text=True, timeout=limit, check=False)
        return part.rule.accepts(parse(said.stdout + said.stderr))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def _build_missing(missing: Sequence[Part], progress: Progress) -> None:
    _report_missing(missing, progress)
    builds = _group_by_module(missing)
    if any(not isinstance(build.parts[0].recipe, Unpacked) for build in builds):
        # Fetch the toolchain once, before parallel builds.
        go_build.toolchain(progress)
    has_failed = threading.Event()

    def build_unless_failed(build: _Build) -> None:
        if has_failed.is_set():
            return
        try:
            _run_build(build, progress)
        except BaseException:
            has_failed.set()
            raise

    with ThreadPoolExecutor(parallel_builds(len(os.sched_getaffinity(0)), _available_bytes())) as pool:
        try:
            for done in [pool.submit(build_unless_failed, build) for build in builds]:
                done.result()
        except KeyboardInterrupt:
            has_failed.set()
            raise


def _report_missing(missing: Sequence[Part], progress: Progress) -> None:
    wanted = ", ".join(f"{part.name} ({part.rule.words})" for part in missing)
    progress.say(f"not on this machine, will be built: {wanted}")
    progress.say(
        "to avoid this, put them on PATH or into KUBEBUILDER_ASSETS (setup-envtest has those of a control plane),"
    )
    progress.say(f"or set {PROGRAMS_VARIABLE} to a copy of {cache() / 'bin'} from a machine that has built them")


def _group_by_module(parts: Sequence[Part]) -> list[_Build]:
    """Group the programs of one module, in the order of the parts.

    They share most of their packages. Two commands of Go at the same time would compile these twice.
    """
    builds: dict[str, list[Part]] = {}
    for part in parts:
        name = part.recipe.module if isinstance(part.recipe, GoTool) else part.name
        builds.setdefault(name, []).append(part)
    return [_Build(name, tuple(members)) for name, members in builds.items()]


def parallel_builds(processors: int, available_bytes: int) -> int:
    """Return how many builds run at the same time: one for each processor, as far as the memory suffices."""
    return max(1, min(processors, available_bytes // BUILD_BYTES))


def _available_bytes() -> int:
    """Return the available memory of the machine, or of the container if its cgroup limits it further."""
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
    values = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
    available = values.get("MemAvailable", 0)
    limit = cgroups.memory_limit()
    return available if limit is None else min(available, limit)


def _lock_of(build: _Build) -> Path:
    return cache() / "locks" / build.name


def _run_build(build: _Build, progress: Progress) -> None:
    """Build the parts of one build. Another process may run another build at the same time."""
    with exclusive(_lock_of(build), progress):
        missing = [part for part in build.parts if not _usable(part, _cached(part))]
        if not missing:  # Another process built them in the meantime.
            return
        started = progress.clock()
        progress.say(f"building {build.name}")
        fresh = cache() / "bin" / f".{build.name}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for recipe in {part.recipe: None for part in missing if isinstance(part.recipe, Unpacked)}:
            debian.unpack(recipe, fresh)
        recipes = [part.recipe for part in missing if not isinstance(part.recipe, Unpacked)]
        if recipes:
            go_build.build(recipes, fresh, name=build.name, progress=progress)
        for part in missing:
            _move_into_cache(part, fresh)
        shutil.rmtree(fresh)
        progress.say(f"built {build.name} in {progress.clock() - started:.0f} s")


def _move_into_cache(part: Part, fresh: Path) -> None:
    """Move the programs of a part into its folder, which appears atomically."""
    complete = fresh / _folder_name(part)
    complete.mkdir()
    for program in part.programs:
        (fresh / program).rename(complete / program)
    shutil.rmtree(_cached(part), ignore_errors=True)
    complete.rename(_cached(part))


def tidy(progress: Progress) -> None:
    """Remove the build caches (gigabytes) once every program exists and no build runs."""
    if (cache() / "go").exists() and all(find(part) for part in PARTS.values()):
        with ExitStack() as stack:
            for build in _group_by_module(tuple(PARTS.values())):
                stack.enter_context(exclusive(_lock_of(build), progress))
            progress.say("every program exists: removing the build caches")
            go_build.forget(progress)
