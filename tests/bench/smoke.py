"""`make bench-smoke`: the smallest form of every benchmark.

    python -m tests.bench.smoke [BENCH …]

It shows that all parts run and that their figures can be true. It judges no speed. It exits with 1 if a benchmark
breaks. It lists a benchmark that cannot run on this machine with the reason; in CI that is a failure. The benchmark of
the operator needs the programs of a control plane, and the benchmark of wakes needs the cluster of `make up`.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence

from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import CANNOT_RUN
from tests.bench.parts import list_benches
from tests.bench.report import FOLDER
from tests.support.machine import is_in_ci, machine_factor

_LONGEST_SECONDS = 600.0
"""A benchmark that takes longer, multiplied by the factor of the machine, is ended."""


def _run_benchmark(bench: str) -> tuple[int, str]:
    """Run a benchmark. Return its exit status, and a sentence about it."""
    began = time.monotonic()
    log = FOLDER / "smoke" / f"{bench}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        command = [sys.executable, "-m", f"tests.bench.{bench}_bench", "--smoke"]
        limit = _LONGEST_SECONDS * machine_factor()
        try:
            done = subprocess.run(
                command, cwd=CHECKOUT, stdout=output, stderr=subprocess.STDOUT, timeout=limit, check=False
            )
            status = done.returncode
        except subprocess.TimeoutExpired:
            output.write(f"{bench}: it did not end within {limit:.0f} s\n")
            status = 1
    text = log.read_text()
    if status == CANNOT_RUN:
        return status, text.splitlines()[-1]
    if status:
        print(text, flush=True)
    return status, f"{bench}: {f'FAILED with {status}' if status else 'runs'}, {time.monotonic() - began:.0f} s"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.smoke", description="the smallest form of benchmarks")
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(list_benches())}; all without one")
    chosen = parser.parse_args(words).benches or list_benches()
    if unknown := [bench for bench in chosen if bench not in list_benches()]:
        parser.error(f"there is no benchmark {', '.join(map(repr, unknown))}; there are {', '.join(list_benches())}")
    statuses = []
    for bench in chosen:
        status, sentence = _run_benchmark(bench)
        statuses.append(status)
        print(sentence, flush=True)
    if set(statuses) <= {CANNOT_RUN}:
        return CANNOT_RUN
    return int(any(status != CANNOT_RUN or is_in_ci() for status in statuses if status))


if __name__ == "__main__":
    sys.exit(main())
