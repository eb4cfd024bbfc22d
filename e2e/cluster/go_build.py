"""Builds programs with Go into a folder, and shows progress.

If the machine has no Go of the required version, one is downloaded and verified by its hash. Go's shared caches are not
used. The build caches grow to 9 GB. They are in the project's cache folder, and `forget` removes them once every
program exists.
"""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import uv
from e2e.cluster.locking import exclusive
from e2e.cluster.parts import GoInstall, GoTool
from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.progress import ClusterError, Progress

OLDEST_GO = (1, 26)
_OLDEST = ".".join(map(str, OLDEST_GO))
_ENDED_BY_SIGNAL = 128
ATTEMPTS = 3  # The sources are pinned, so a failure is usually a network failure.
MODULES = Path(__file__).parent / "go"


_DOWNLOADS = {"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOAUTH"}
"""Variables of the caller that say where modules come from. Others, such as GOROOT, would break the build."""


def make_environment(go: str | Path, caches: Path | None = None) -> dict[str, str]:
    """Return the environment of a build. By default its caches are those that `forget` removes."""
    folder = caches or cache() / "go"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GO") or name in _DOWNLOADS}
    return inherited | {
        "PATH": f"{Path(go).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "GOCACHE": str(folder / "build"),
        "GOMODCACHE": str(folder / "mod"),
        "GOFLAGS": "-buildvcs=false -trimpath",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def fits(go: str | Path) -> bool:
    """Return True if this Go is new enough."""
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=make_environment(go)
        ).stdout
    except OSError:
        return False
    found = re.search(r"go(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_GO


def toolchain(progress: Progress) -> Path:
    """Return the Go on PATH if it is new enough, else download the Go of locks/go.txt once into the cache."""
    on_path = shutil.which("go")
    if on_path and fits(on_path):
        return Path(on_path)
    lock = CHECKOUT / "locks" / "go.txt"
    home = cache() / f"go-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    go = home / "bin" / "go"
    if not fits(go):
        with exclusive(cache() / "locks" / "go", progress):
            if not fits(go):  # Another process fetched it in the meantime.
                _fetch(lock, home, progress)
    return go


def _fetch(lock: Path, home: Path, progress: Progress) -> None:
    progress.say("fetching Go, for there is none on PATH that is new enough")
    program = str(uv.folder() / "uv")
    for command in (
        [program, "venv", "--quiet", "--clear", str(home)],
        [program, "pip", "sync", "--quiet", "--require-hashes", f"--python={home}", str(lock)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"Go cannot be fetched; put Go {_OLDEST} or newer on PATH:\n{done.stderr[-1500:]}")


def build(recipes: Sequence[GoTool | GoInstall], into: Path, *, name: str, progress: Progress) -> None:
    """Build the packages of all recipes with one command. The recipes must have the same module and flags."""
    go = toolchain(progress)
    environment = make_environment(go)
    recipe = recipes[0]
    packages = [package for each in recipes for package in each.packages]
    ldflags = f"-ldflags=-s -w {recipe.ldflags}".rstrip()
    if isinstance(recipe, GoTool):
        command = [str(go), "build", "-v", ldflags, "-o", f"{into}/", *packages]
        cwd = MODULES / recipe.module
    else:
        gcflags = (f"-gcflags={recipe.gcflags}",) if recipe.gcflags else ()
        command = [str(go), "install", "-v", ldflags, *gcflags, *packages]
        cwd = into
        # These modules are small, so memory is left for fewer collections of the compiler's garbage.
        environment |= {"GOBIN": str(into), "GOGC": "400"}
    for attempt in range(1, ATTEMPTS + 1):
        status, tail = _run(
            ["nice", "-n", "10", *command], cwd=cwd, environment=environment, name=name, progress=progress
        )
        if status == 0:
            return
        if status < 0 or status >= _ENDED_BY_SIGNAL:
            break  # A signal ended the build, so the user wants no other attempt.
        progress.say(f"building {name}: attempt {attempt} of {ATTEMPTS} failed")
    raise ClusterError(f"go could not build {name}:\n{tail}")


def _run(
    command: list[str], *, cwd: Path, environment: dict[str, str], name: str, progress: Progress
) -> tuple[int, str]:
    lines: list[str] = []
    with subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True) as process:
        done = threading.Event()

        def report() -> None:
            while not done.wait(20):
                progress.say(f"building {name} ({len(lines)} packages fetched or compiled)")

        reporter = threading.Thread(target=report, daemon=True)
        reporter.start()
        assert process.stderr is not None
        lines.extend(line.rstrip() for line in process.stderr)
        status = process.wait()
        done.set()
        reporter.join()
    return status, "\n".join(lines[-20:])


def forget(progress: Progress) -> None:
    """Remove the build caches. Go stores modules read-only, so only Go itself can delete them."""
    if (cache() / "go").exists():
        go = toolchain(progress)
        subprocess.run([go, "clean", "-modcache", "-cache"], env=make_environment(go), check=True)
        shutil.rmtree(cache() / "go", ignore_errors=True)
