"""`make bench-compare`: the figures of this checkout beside those of another commit, from alternating runs of both.

    python -m tests.bench.compare --base COMMIT --parts "agent:rates,start turn:durable" [--runs 5] [--own-code]

It exits with 1 if a row is worse, with 2 if a run breaks, and with 77 if this machine cannot run a benchmark. Both
sides are copies with their own environments in the cache of the machine, so this checkout may be edited meanwhile.

Both commits run the benchmarks and the test code of this checkout, so that both figures are measured in the same way.
With `--own-code`, each commit runs its own benchmarks. This is necessary if the benchmarks call functions of the
product that the other commit does not have. The other commit must then have the option `--json`.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.locking import exclusive
from e2e.cluster.paths import CHECKOUT, cache
from e2e.cluster.progress import CANNOT_RUN, Progress
from e2e.cluster.run_folder import run_folder
from tests.bench.comparison import HEAD, Figure, RowKey, Verdict, compare, read_figures, summarise, to_lines
from tests.bench.parts import list_benches
from tests.bench.report import FOLDER
from tests.bench.table import print_columns
from tests.support.machine import machine_factor

Chosen = dict[str, list[str]]
"""The parts of each benchmark."""
_RUNS = 5
_FEWEST_RUNS = 2
_CODE = ("tests", "e2e")
"""The folders of the benchmarks and of the modules that they import."""
_COMPILED = ("agent_image/src", "libs", "operator/src", "gateway/src", "cli/src", "workspace/src", "e2e", "tests/bench")
_KEPT = 3
"""The number of commits that stay in the cache. Each takes half a gigabyte."""
_LOGS = FOLDER / "compare"
_SHOWN_LINES = 30


class BrokenRunError(Exception):
    """A commit cannot be installed, or a run of its benchmarks failed."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Side:
    """One of the two commits."""

    name: str
    root: Path


def choose_parts(text: str, parts_of: Mapping[str, Sequence[str]]) -> Chosen:
    """Return the chosen parts of each benchmark: `agent:rates,start turn` are two parts of one and all of another.

    Raises:
        ValueError: if a benchmark or a part does not exist.
    """
    chosen: Chosen = {}
    for word in text.split():
        bench, _, names = word.partition(":")
        if bench not in parts_of:
            raise ValueError(f"there is no benchmark {bench!r}; the benchmarks are {', '.join(parts_of)}")
        parts = names.split(",") if names else list(parts_of[bench])
        if unknown := [repr(part) for part in parts if part not in parts_of[bench]]:
            listed = ", ".join(parts_of[bench])
            raise ValueError(f"{bench} has no part {', '.join(unknown)}; its parts are {listed}")
        chosen[bench] = [*dict.fromkeys([*chosen.get(bench, []), *parts])]
    if not chosen:
        raise ValueError(f"choose benchmarks, for example 'agent:start turn'; there are {', '.join(parts_of)}")
    return chosen


class _PartsOfBenches(Mapping[str, Sequence[str]]):
    """The parts of each benchmark. It imports a benchmark when its parts are read, because that takes seconds."""

    def __iter__(self) -> Iterator[str]:
        return iter(list_benches())

    def __len__(self) -> int:
        return len(list_benches())

    def __contains__(self, name: object) -> bool:
        return name in list_benches()

    def __getitem__(self, name: str) -> Sequence[str]:
        return list(importlib.import_module(f"tests.bench.{name}_bench").PARTS)


def alternate(base: Side, head: Side, runs: int) -> list[tuple[int, Side]]:
    """Return the order of the runs: base, head, head, base, base, … so that a drift of the machine affects both."""
    return [(run, side) for run in range(runs) for side in ((base, head) if run % 2 == 0 else (head, base))]


def _commit(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("name the commit to compare with, for example BASE=main")
    return text


def _resolve(commit: str) -> str:
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ValueError(f"{commit!r} is not a commit of this repository: {found.stderr.strip() or 'it is not known'}")
    return found.stdout.strip()


def _install(commit: str, *, own_code: bool, progress: Progress) -> Path:
    """Return the folder of a commit with its environment. Only the first call for a commit takes long."""
    folder = cache() / "compare" / commit[:12]
    if not folder.exists():
        progress.say(f"writing the files of {commit[:12]} to {folder}")
        fresh = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _extract(commit, fresh)
        fresh.rename(folder)
    folder.touch()
    _remove_old(folder.parent)
    for name in _CODE:
        shutil.rmtree(folder / name, ignore_errors=True)
        if not own_code:
            shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if own_code:
        _extract(commit, folder, *_CODE)
    progress.say(f"installing the environment of {commit[:12]}")
    _run([folder / "locks/sync"], folder)
    return folder


def _copy_checkout(progress: Progress) -> Path:
    """Copy this checkout, with files that are not committed, so that a later edit does not change what is measured."""
    folder = cache() / "compare" / ".head"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name == ".venv":
            continue  # locks/sync updates it
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listing.split("\0")):
        source, target = CHECKOUT / name, folder / name
        if os.path.lexists(source):  # Git lists a deleted file until the deletion is committed.
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    progress.say(f"installing the environment of this checkout in {folder}")
    _run([folder / "locks/sync"], folder)
    return folder


def _extract(commit: str, folder: Path, *paths: str) -> None:
    """Write files of a commit into a folder. A worktree would outlive the cache in the list of the repository."""
    with tempfile.TemporaryDirectory() as temporary:
        archive = Path(temporary) / "files.tar"
        _run(["git", "archive", f"--output={archive}", commit, *paths], CHECKOUT)
        _run(["tar", "-x", "-f", archive, "-C", folder], CHECKOUT)


def _remove_old(folder: Path) -> None:
    """Remove all commits from the cache but those that were used last."""
    commits = sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime)
    for path in commits[:-_KEPT]:
        shutil.rmtree(path)


def _compile(side: Side) -> None:
    """Compile all modules, so that the start of a process takes the same steps in both commits."""
    present = [name for name in _COMPILED if (side.root / name).exists()]
    _run([side.root / ".venv/bin/python", "-m", "compileall", "-q", "-j", "0", *present], side.root)


def _run(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        shown = (done.stdout + done.stderr)[-4000:]
        raise BrokenRunError(f"{' '.join(map(str, command))} failed in {folder}:\n{shown}")


def _environment() -> dict[str, str]:
    """Return the environment of a run. It does not name this checkout."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    return {name: value for name, value in os.environ.items() if name not in left_out}


def _measure(side: Side, run: int, chosen: Chosen, *, smoke: bool, temporary: str) -> dict[RowKey, Figure]:
    """Run the chosen parts once, and return their figures."""
    figures: dict[RowKey, Figure] = {}
    for bench, parts in chosen.items():
        file = _LOGS / f"{bench}-{run + 1}-{side.name}.json"
        command = [str(side.root / ".venv/bin/python"), "-m", f"tests.bench.{bench}_bench"]
        command += ["--parts", ",".join(parts), "--json", str(file), *(["--smoke"] if smoke else [])]
        began = time.monotonic()
        log = file.with_suffix(".log")
        with log.open("w") as output:
            environment = {**_environment(), "TMPDIR": temporary}
            status = subprocess.run(
                command, cwd=side.root, env=environment, stdout=output, stderr=subprocess.STDOUT, check=False
            ).returncode
        if status:
            lines = log.read_text().splitlines()
            shown = "\n".join(lines[-_SHOWN_LINES:])
            raise BrokenRunError(
                f"{shown}\n{side.name}: {bench} ended with {status}; its output is in {log}",
                status if status == CANNOT_RUN else 2,
            )
        print(f"  run {run + 1}, {side.name}: {bench} took {time.monotonic() - began:.0f} s", flush=True)
        figures |= read_figures(json.loads(file.read_text()))
    return figures


def _compare(commit: str, chosen: Chosen, arguments: argparse.Namespace) -> int:
    """Run both commits, and print the table. Return the exit status."""
    # A nested folder would make the paths of Unix sockets too long.
    temporary = tempfile.gettempdir()
    progress = Progress()
    # Two comparisons at the same time would measure each other.
    with run_folder("fleetwright-compare-"), exclusive(cache() / "locks" / "compare", progress):
        machine_factor()
        base = Side("base", _install(commit, own_code=arguments.own_code, progress=progress))
        head = Side("head", _copy_checkout(progress))
        for side in (base, head):
            _compile(side)
        shutil.rmtree(_LOGS, ignore_errors=True)
        _LOGS.mkdir(parents=True)
        runs: dict[str, list[dict[RowKey, Figure]]] = {base.name: [], head.name: []}
        for run, side in alternate(base, head, arguments.runs):
            runs[side.name].append(_measure(side, run, chosen, smoke=arguments.smoke, temporary=temporary))
    comparisons = compare(runs[base.name], runs[head.name])
    print_columns([HEAD, *to_lines(comparisons)])
    print(summarise(comparisons))
    if arguments.runs < _RUNS and not arguments.smoke:
        print(f"with fewer than {_RUNS} runs, equal commits differ by chance; repeat a worse row with RUNS={_RUNS}")
    return int(any(each.verdict is Verdict.WORSE for each in comparisons))


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare", description="two commits beside each other")
    parser.add_argument(
        "--base", required=True, type=_commit, metavar="COMMIT", help="the commit to compare this checkout with"
    )
    parser.add_argument("--parts", required=True, metavar="BENCH[:PART,…] …", help="the benchmarks and their parts")
    parser.add_argument("--runs", type=int, default=_RUNS, help="the number of runs of each commit")
    parser.add_argument("--own-code", action="store_true", help="each commit runs its own benchmarks")
    parser.add_argument("--smoke", action="store_true", help="the smallest forms, to try the comparison itself")
    arguments = parser.parse_args(words)
    if arguments.runs < _FEWEST_RUNS:
        parser.error(f"--runs: one run has no range; use at least {_FEWEST_RUNS}")
    try:
        chosen, commit = choose_parts(arguments.parts, _PartsOfBenches()), _resolve(arguments.base)
    except ValueError as error:
        parser.error(str(error))
    try:
        return _compare(commit, chosen, arguments)
    except BrokenRunError as error:
        print(error, file=sys.stderr)
        return error.status
    except Exception:
        # The status of an exception that is not handled is 1, as for a worse row.
        traceback.print_exc()
        return 2


if __name__ == "__main__":
    sys.exit(main())
