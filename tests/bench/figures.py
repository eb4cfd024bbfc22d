"""Finds figures of a benchmark that cannot be true, such as a negative duration. Pure functions."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tests.bench.table import Row, name_rows

_PERCENTILE = re.compile(r"(?:^|,? )(?:p(\d+)|(least|median|maximum))\b")
_WORDS = {"least": 0, "median": 50, "maximum": 100}


def find_impossible_figures(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each figure of one part that cannot be true."""
    if not rows:
        return ["there is no figure"]
    named = name_rows(rows)
    found = [f"{name}: {reason}" for name, row in named for reason in _reasons(row)]
    names = [name for name, _ in named]
    found += [f"{name}: two rows have this name" for name in dict.fromkeys(names) if names.count(name) > 1]
    return [*found, *_disordered_percentiles(named)]


def _reasons(row: Row) -> Iterator[str]:
    figures = {"": row.ours} | ({} if row.reference is None else {"the reference is ": row.reference})
    for whose, value in figures.items():
        shown = f"{whose}{value:g} {row.unit}".rstrip()
        if not math.isfinite(value):
            yield f"{shown} is not a number"
        elif value < 0 and not row.is_difference:
            yield f"{shown} is negative"
        elif value == 0 and row.is_rate:
            yield f"{shown}, so nothing was measured"
    if row.reference == 0 and not row.is_rate:
        yield "the reference is 0, so there is no ratio"


def _disordered_percentiles(named: Iterable[tuple[str, Row]]) -> Iterator[str]:
    """Find percentiles of the same measure of which the higher one has the lower value."""
    percentiles: dict[tuple[str, str], list[tuple[int, str, float]]] = {}
    for name, row in named:
        match = _PERCENTILE.search(name)
        if match and not row.is_difference:
            last = list(_PERCENTILE.finditer(name))[-1]
            percent = int(last[1]) if last[1] else _WORDS[last[2]]
            stem = _PERCENTILE.sub("", name).replace("…", "").split()
            percentiles.setdefault((" ".join(stem), row.unit), []).append((percent, name, row.ours))
    for group in percentiles.values():
        for (_, lower, below), (_, higher, above) in pairwise(sorted(group)):
            if below > above:
                yield f"{higher}: {above:g} is less than {below:g}, the figure of {lower!r}"
