"""The measures of the workspace. Each compares with the same work in this process, in one run."""

import statistics
import subprocess
import time
from collections.abc import Callable

from tests.bench.table import Row
from tests.bench.workspace.stage import WorkspaceStage

from fleetwright_workspace.files.excerpts import read_excerpt
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.search import find_ripgrep

_ROUNDS = 60
_FILES = 20_000
_OUTPUT = 1_000_000_000


def read(stage: WorkspaceStage) -> list[Row]:
    file = stage.root / "read.py"
    file.write_text("".join(f"    line_{number} = compute({number}, 'some text')  # note\n" for number in range(2000)))
    root = WorkspaceRoot(str(stage.root))
    location = root.locate("read.py")
    ours, alone = _paired(
        lambda: stage.call("read", path="read.py"), lambda: read_excerpt(root, location, offset=0, limit=2000)
    )
    return [
        Row("read_file of 2,000 lines: added, p50", ours - alone, "ms", bar=5),
        Row("  in one process", alone, "ms"),
    ]


def command(stage: WorkspaceStage) -> list[Row]:
    ours, alone = _paired(
        lambda: stage.run("true"), lambda: subprocess.run(["/bin/bash", "-c", "true"], check=True, capture_output=True)
    )
    return [Row("bash true: added, p50", ours - alone, "ms", bar=15), Row("  in one process", alone, "ms")]


def search(stage: WorkspaceStage) -> list[Row]:
    ripgrep = find_ripgrep()
    if ripgrep is None:
        print("search: needs ripgrep; left out")
        return []
    folder = stage.root / "many"
    text = "def function(argument):\n    return argument + 1\n" * 20
    for number in range(_FILES):
        path = folder / f"package_{number // 200}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (f"needle_{number} = 1\n" if number % 1000 == 0 else ""))
    words = [ripgrep, "--no-config", "--hidden", "--line-number", "--no-heading", "needle_[0-9]+", "."]
    ours, alone = _paired(
        lambda: stage.call("search", pattern="needle_[0-9]+", path="many"),
        lambda: subprocess.run(words, cwd=folder, check=True, capture_output=True),
        rounds=20,
    )
    return [Row("search_files over 20,000 files, p50", ours, "ms", bar=1.3, reference=alone)]


def edit(stage: WorkspaceStage) -> list[Row]:
    lines = [f"row {number:06d} of a file of two megabytes\n" for number in range(48_000)]
    (stage.root / "large.txt").write_text("".join(lines)[: 2 * 1024 * 1024 - 100])
    state = stage.call("read", path="large.txt", limit=1)
    times: list[float] = []
    for number in range(30):
        started = time.perf_counter()
        state = stage.call(
            "edit",
            path="large.txt",
            old=f"row {20_000 + number:06d} of",
            new=f"rox {20_000 + number:06d} of",
            expected={"digest": state["digest"], "mtime_ns": state["mtime_ns"]},
            turn=f"turn {number}",
        )
        times.append((time.perf_counter() - started) * 1000)
    return [Row("edit of a 2 MB file, p50", statistics.median(times), "ms", bar=50), Row("  p90", _p90(times), "ms")]


def memory(stage: WorkspaceStage) -> list[Row]:
    """The first row is only the idle memory if this part runs alone."""
    idle = stage.memory("VmRSS")
    end = stage.run(f"head -c {_OUTPUT} /dev/zero | tr '\\0' x")
    grown = stage.memory("VmHWM") - idle
    rate = end["stdout_bytes"] / end["seconds"] / 1_000_000
    return [
        Row("runner: memory before", idle, "MB", bar=20),
        Row("runner: added under 1 GB of output", grown, "MB", bar=16),
        Row("output of commands", rate, "MB/s"),
    ]


def _paired(ours: Callable[[], object], reference: Callable[[], object], rounds: int = _ROUNDS) -> tuple[float, float]:
    """Return the medians in milliseconds. The order alternates, so a change of the load affects both."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds + 4):
        is_ours = (number + number // 2) % 2 == 0
        started = time.perf_counter()
        (ours if is_ours else reference)()
        if number >= 4:  # the first calls fill caches
            times[is_ours].append((time.perf_counter() - started) * 1000)
    return statistics.median(times[True]), statistics.median(times[False])


def _p90(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[-1]
