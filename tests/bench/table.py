"""The rows of a benchmark: a measured figure, its reference and its bar."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_HEAD = ("measure", "ours", "reference", "ratio", "bar", "")
_CONTINUES = ("…", "  ")
"""A measure that begins so continues the last measure that does not."""


@dataclass(frozen=True)
class Row:
    measure: str
    """What is measured. It has no measured number, because a comparison finds the row of the other commit by it."""
    ours: float
    unit: str
    bar: float | None = None
    """The bar for the ratio if there is a reference, else for the figure. A row without a bar is informative."""
    reference: float | None = None
    at_least: bool = False
    """True if the bar is a minimum and not a maximum."""
    is_reference: bool = False
    """True if the figure belongs to another program or to a lower bound. A comparison does not judge it."""
    is_difference: bool = False
    """True if the figure is the difference of two independent measurements, which may be negative."""
    detail: str = ""
    """The circumstances of this run, such as the number of objects."""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.reference if self.reference else None

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        return value >= self.bar if self.at_least else value <= self.bar

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")

    @property
    def higher_is_better(self) -> bool:
        return self.at_least or self.is_rate


def name_rows(rows: Iterable[Row]) -> list[tuple[str, Row]]:
    """Return the rows of one part with their names. A row that continues another begins with the name of that row."""
    named: list[tuple[str, Row]] = []
    first = ""
    for row in rows:
        if row.measure.startswith(_CONTINUES):
            rest = row.measure if row.measure.startswith("…") else f"… {row.measure.strip()}"
            named.append((f"{first} {rest}".strip(), row))
        else:
            first = row.measure
            named.append((first, row))
    return named


def to_document(part: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows of one part as they are in the JSON file of a benchmark."""
    return [
        {
            "part": part,
            "name": name,
            **asdict(row),
            "better": "higher" if row.higher_is_better else "lower",
            "ratio": row.ratio,
            "holds": row.holds,
        }
        for name, row in name_rows(rows)
    ]


def print_table(rows: Sequence[Row]) -> None:
    """Print the rows, and how many of them meet their bars."""
    print_columns([_HEAD, *(_cells(row) for row in rows)])
    judged = [row for row in rows if row.holds is not None]
    print(f"bars: {sum(bool(row.holds) for row in judged)} of {len(judged)} hold")


def print_columns(lines: Sequence[Sequence[str]]) -> None:
    """Print lines of cells, with every column as wide as its widest cell."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cells(row: Row) -> tuple[str, ...]:
    unit = f" {row.unit}" if row.unit else ""
    bar = "" if row.bar is None else f"{'≥' if row.at_least else '≤'} {row.bar:g}{'×' if row.ratio else unit}"
    return (
        f"{row.measure} ({row.detail})" if row.detail else row.measure,
        format_number(row.ours) + unit,
        "" if row.reference is None else format_number(row.reference) + unit,
        "" if row.ratio is None else f"{row.ratio:.2f}×",
        bar,
        {True: "holds", False: "short", None: ""}[row.holds],
    )


def format_number(value: float) -> str:
    """Return a number with three significant digits, or as a whole number from 100."""
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value, 0) else f"{value:.3g}"
