"""The measures of the workspace. Each compares with the same work in this process, in one run."""

import statistics
import subprocess
import time
from collections.abc import Callable

from e2e.cluster.progress import CannotRun
from tests.bench.parts import Part
from tests.bench.table import Row
from tests.bench.workspace.stage import WorkspaceStage

from fleetwright_workspace.files.excerpts import read_excerpt
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.search import find_ripgrep


def read(stage: WorkspaceStage, *, rounds: int = 60) -> list[Row]:
    file = stage.root / "read.py"
    file.write_text("".join(f"    line_{number} = compute({number}, 'some text')  # note\n" for number in range(2000)))
    root = WorkspaceRoot(str(stage.root))
    location = root.locate("read.py")
    ours, alone = _paired(
        lambda: stage.call("read", path="read.py"),
        lambda: read_excerpt(root, location, offset=0, limit=2000),
        rounds,
    )
    return [
        Row("read_file of 2,000 lines: added, p50", ours - alone, "ms", bar=5, is_difference=True),
        Row("  in one process", alone, "ms", is_reference=True),
    ]


def command(stage: WorkspaceStage, *, rounds: int = 60) -> list[Row]:
    ours, alone = _paired(
        lambda: stage.run("true"),
        lambda: subprocess.run(["/bin/bash", "-c", "true"], check=True, capture_output=True),
        rounds,
    )
    return [
        Row("bash true: added, p50", ours - alone, "ms", bar=15, is_difference=True),
        Row("  in one process", alone, "ms", is_reference=True),
    ]


def search(stage: WorkspaceStage, *, files: int = 20_000, rounds: int = 20) -> list[Row]:
    ripgrep = find_ripgrep()
    if ripgrep is None:
        raise CannotRun("it needs ripgrep")
    folder = stage.root / "many"
    text = "def function(argument):\n    return argument + 1\n" * 20
    for number in range(files):
        path = folder / f"package_{number // 200}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (f"needle_{number} = 1\n" if number % 1000 == 0 else ""))
    words = [ripgrep, "--no-config", "--hidden", "--line-number", "--no-heading", "needle_[0-9]+", "."]
    ours, alone = _paired(
        lambda: stage.call("search", pattern="needle_[0-9]+", path="many"),
        lambda: subprocess.run(words, cwd=folder, check=True, capture_output=True),
        rounds,
    )
    return [Row(f"search_files over {files:,} files, p50", ours, "ms", bar=1.3, reference=alone)]


def edit(stage: WorkspaceStage, *, times: int = 30) -> list[Row]:
    lines = [f"row {number:06d} of a file of two megabytes\n" for number in range(48_000)]
    (stage.root / "large.txt").write_text("".join(lines)[: 2 * 1024 * 1024 - 100])
    state = stage.call("read", path="large.txt", limit=1)
    took: list[float] = []
    for number in range(times):
        started = time.perf_counter()
        state = stage.call(
            "edit",
            path="large.txt",
            old=f"row {20_000 + number:06d} of",
            new=f"rox {20_000 + number:06d} of",
            expected={"digest": state["digest"], "mtime_ns": state["mtime_ns"]},
            turn=f"turn {number}",
        )
        took.append((time.perf_counter() - started) * 1000)
    return [Row("edit of a 2 MB file, p50", statistics.median(took), "ms", bar=50), Row("  p90", _p90(took), "ms")]


def memory(stage: WorkspaceStage, *, output: int = 1_000_000_000) -> list[Row]:
    """The first row is only the idle memory if this part runs alone."""
    idle = stage.memory("VmRSS")
    end = stage.run(f"head -c {output} /dev/zero | tr '\\0' x")
    grown = stage.memory("VmHWM") - idle
    rate = end["stdout_bytes"] / end["seconds"] / 1_000_000
    return [
        Row("runner: memory before", idle, "MB", bar=20),
        Row(f"runner: added under {output:,} bytes of output", grown, "MB", bar=16),
        Row("output of commands", rate, "MB/s"),
    ]


def _paired(ours: Callable[[], object], reference: Callable[[], object], rounds: int) -> tuple[float, float]:
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


PARTS = {
    "read": Part(read, {"rounds": 2}),
    "command": Part(command, {"rounds": 2}),
    "search": Part(search, {"files": 400, "rounds": 2}),
    "edit": Part(edit, {"times": 3}),
    "memory": Part(memory, {"output": 10_000_000}),
}
