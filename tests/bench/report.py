"""Runs the parts of a benchmark one after the other, and reports their figures.

A part that breaks does not stop the others. The program then ends with 1, as it does after a figure that cannot be
true. Figures that miss their bars do not change the exit status.
"""

import inspect
import json
import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import CANNOT_RUN, CannotRun
from tests.bench.figures import find_impossible_figures
from tests.bench.parts import Part
from tests.bench.table import Row, print_table, to_document

FOLDER = CHECKOUT / "build" / "bench"


class Report:
    """The figures of one run of a benchmark, and what went wrong."""

    def __init__(self, bench: str, *, parts: Collection[str] = (), smoke: bool = False, **facts: object) -> None:
        self.bench = bench
        self.is_smoke = smoke
        self.rows: dict[str, list[Row]] = {}
        self.problems: list[str] = []
        self.obstacles: list[str] = []
        """The reasons why parts cannot run on this machine."""
        machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
        self.facts: dict[str, object] = {**machine, "parts": list(parts), "smoke": smoke, **facts}

    async def run_parts(
        self,
        parts: Mapping[str, Part],
        names: Iterable[str],
        *on: object,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Run the named parts.

        Args:
            on: the first arguments of every part.
            options: the further arguments of single parts. The smallest form has its own.
        """
        for name in names:
            part = parts[name]
            if self.is_smoke and part.smoke is None:
                print(f"  {name} is left out: a test runs its smallest form", flush=True)
                continue
            arguments = part.smoke if self.is_smoke else (options or {}).get(name)
            began = time.monotonic()
            try:
                measured = part.measure(*on, **(arguments or {}))
                self.add(name, await measured if inspect.isawaitable(measured) else measured)
            except CannotRun as reason:
                self.obstacles.append(f"{self.bench}: {name} cannot run: {reason}")
            except Exception as error:
                traceback.print_exc()
                self.problems.append(f"{self.bench}: {name} broke: {error!r}")
            print(f"  {name} took {time.monotonic() - began:.0f} s", flush=True)

    def add(self, part: str, rows: Sequence[Row]) -> None:
        """Add the rows of a part, and check them."""
        self.rows[part] = list(rows)
        self.problems += [f"{self.bench}: {part}: {problem}" for problem in find_impossible_figures(rows)]

    def write(self, file: Path) -> None:
        """Write all figures as JSON."""
        rows = [row for part, measured in self.rows.items() for row in to_document(part, measured)]
        document = {"bench": self.bench, "facts": self.facts, "problems": self.problems, "rows": rows}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1) + "\n")

    def finish(self, file: Path | None, *, print_rows: Callable[[Sequence[Row]], None] = print_table) -> int:
        """Write and print the figures and the problems, and return the exit status."""
        self.write(file or FOLDER / ("smoke" if self.is_smoke else "") / f"{self.bench}.json")
        if rows := [row for measured in self.rows.values() for row in measured]:
            print_rows(rows)
        for line in (*self.problems, *self.obstacles):
            print(line, flush=True)
        if self.problems:
            print(f"{self.bench}: {len(self.problems)} parts broke or figures are impossible")
            return 1
        return CANNOT_RUN if self.obstacles and not self.rows else 0
