"""Builds programs with Go into a folder, showing progress. Refuses an old Go, and to use Go's shared caches.

The caches of the builds grow to 9 GB; they lie in our own cache folder and are removed by `forget` as soon as
every program exists.
"""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

from e2e.cluster.parts import GoInstall, GoTool
from e2e.cluster.paths import cache
from e2e.cluster.progress import ClusterError, Progress

OLDEST_GO = (1, 26)
ATTEMPTS = 3  # sources are pinned, so what fails is the network
MODULES = Path(__file__).parent / "go"


def _environment() -> dict[str, str]:
    folder = cache() / "go"
    return os.environ | {
        "GOCACHE": str(folder / "build"),
        "GOMODCACHE": str(folder / "mod"),
        "GOFLAGS": "-buildvcs=false -trimpath",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }


def obstacle() -> str | None:
    """Why nothing can be built here."""
    oldest = f"{OLDEST_GO[0]}.{OLDEST_GO[1]}"
    go = shutil.which("go")
    if not go:
        return f"Go >= {oldest} builds the cluster's programs: install it, or put the programs on PATH"
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GO:
        return f"Go >= {oldest} is needed to build the cluster's programs, and {go} is {said.strip() or 'unknown'}"
    return None


def build(recipe: GoTool | GoInstall, into: Path, *, name: str, progress: Progress) -> None:
    reason = obstacle()
    if reason:
        raise ClusterError(reason)
    environment = _environment()
    ldflags = f"-ldflags=-s -w {recipe.ldflags}".rstrip()
    if isinstance(recipe, GoTool):
        command = ["go", "build", "-v", ldflags, "-o", f"{into}/", *recipe.packages]
        cwd = MODULES / recipe.module
    else:
        command = ["go", "install", "-v", ldflags, *recipe.packages]
        cwd = into
        environment["GOBIN"] = str(into)
    for attempt in range(1, ATTEMPTS + 1):
        status, tail = _run(
            ["nice", "-n", "10", *command], cwd=cwd, environment=environment, name=name, progress=progress
        )
        if status == 0:
            return
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


def forget() -> None:
    """Removes the build caches. Modules are stored read-only, which only Go itself undoes."""
    if (cache() / "go").exists():
        subprocess.run(["go", "clean", "-modcache", "-cache"], env=_environment(), check=True)
        shutil.rmtree(cache() / "go", ignore_errors=True)
