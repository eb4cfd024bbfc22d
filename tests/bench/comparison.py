"""Compares the figures of two commits, each from several runs. Pure functions."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.bench.table import format_number

JUDGED_DIFFERENCE = 0.1
"""A smaller difference of the medians, as a part of that of the base, is not judged."""
HEAD = ("row", "base", "head", "ratio", "verdict")


class Verdict(StrEnum):
    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    REFERENCE = "reference"
    """The figure belongs to another program. If it differs too, the machine has changed, or the benchmark."""
    ONE_SIDE = "one commit only"


@dataclass(frozen=True)
class RowKey:
    bench: str
    part: str
    name: str


@dataclass(frozen=True)
class Figure:
    value: float
    unit: str
    higher_is_better: bool
    is_reference: bool


@dataclass(frozen=True)
class Comparison:
    """The figures of one row."""

    key: RowKey
    unit: str
    higher_is_better: bool
    is_reference: bool
    base: Sequence[float]
    head: Sequence[float]

    @property
    def ratio(self) -> float | None:
        """The median of the head divided by that of the base; None if this has no meaning."""
        if not (self.base and self.head):
            return None
        base, head = statistics.median(self.base), statistics.median(self.head)
        return head / base if base and base * head >= 0 else None

    @property
    def verdict(self) -> Verdict:
        """Worse or better if the medians differ by more than a tenth, and the ranges do not overlap."""
        if not (self.base and self.head):
            return Verdict.ONE_SIDE
        if self.is_reference:
            return Verdict.REFERENCE
        base, head = statistics.median(self.base), statistics.median(self.head)
        overlap = max(min(self.base), min(self.head)) <= min(max(self.base), max(self.head))
        if overlap or abs(head - base) <= JUDGED_DIFFERENCE * abs(base):
            return Verdict.SAME
        return Verdict.BETTER if (head > base) is self.higher_is_better else Verdict.WORSE


def read_figures(document: Mapping[str, Any]) -> dict[RowKey, Figure]:
    """Return the figures in the JSON file of a benchmark. The reference of a row is a row of its own."""
    figures: dict[RowKey, Figure] = {}
    for row in document["rows"]:
        better = row["better"] == "higher"
        key = RowKey(document["bench"], row["part"], row["name"])
        figures[key] = Figure(row["ours"], row["unit"], better, row["is_reference"])
        if row["reference"] is not None:
            of_reference = RowKey(key.bench, key.part, f"{key.name} (reference)")
            figures[of_reference] = Figure(row["reference"], row["unit"], better, is_reference=True)
    return figures


def compare(base: Sequence[Mapping[RowKey, Figure]], head: Sequence[Mapping[RowKey, Figure]]) -> list[Comparison]:
    """Return a comparison of each row, in the order in which the rows first appear."""
    first: dict[RowKey, Figure] = {}
    for run in (*head, *base):
        for key, figure in run.items():
            first.setdefault(key, figure)

    def values(runs: Iterable[Mapping[RowKey, Figure]], key: RowKey) -> list[float]:
        return [run[key].value for run in runs if key in run]

    return [
        Comparison(key, figure.unit, figure.higher_is_better, figure.is_reference, values(base, key), values(head, key))
        for key, figure in first.items()
    ]


def to_lines(comparisons: Iterable[Comparison]) -> list[tuple[str, ...]]:
    """Return the table as lines of cells."""
    return [
        (
            f"{each.key.bench}:{each.key.part}  {_label(each.key.name)}",
            _range(each.base, each.unit),
            _range(each.head, each.unit),
            "" if each.ratio is None else f"{each.ratio:.2f}",
            str(each.verdict),
        )
        for each in comparisons
    ]


def _label(name: str) -> str:
    """Return a short name. A row that continues another follows it."""
    _, continues, rest = name.rpartition(" … ")
    return f"… {rest}" if continues else name


def _range(values: Sequence[float], unit: str) -> str:
    """Return the median and the range: `12.3 ms [11.9–13.1]`."""
    if not values:
        return ""
    numbers = [format_number(value) for value in (statistics.median(values), min(values), max(values))]
    return f"{numbers[0]} {unit}".rstrip() + f" [{numbers[1]}–{numbers[2]}]"


def summarise(comparisons: Sequence[Comparison]) -> str:
    """Return the last line: the number of judged rows, and how many of them are worse or better."""
    verdicts = [each.verdict for each in comparisons]
    judged = sum(verdict in {Verdict.WORSE, Verdict.BETTER, Verdict.SAME} for verdict in verdicts)
    return f"{judged} rows, {verdicts.count(Verdict.WORSE)} worse, {verdicts.count(Verdict.BETTER)} better"
