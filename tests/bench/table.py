"""The rows of a benchmark: a measured figure, its reference and its bar."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "build" / "bench"
_HEAD = ("measure", "ours", "reference", "ratio", "bar", "")


@dataclass(frozen=True)
class Row:
    measure: str
    ours: float
    unit: str
    bar: float | None = None
    """The bar for the ratio if there is a reference, else for the figure. A row without a bar is informative."""
    reference: float | None = None
    at_least: bool = False
    """True if the bar is a minimum and not a maximum."""

    @property
    def ratio(self) -> float | None:
        return self.ours / self.reference if self.reference else None

    @property
    def holds(self) -> bool | None:
        if self.bar is None:
            return None
        value = self.ours if self.ratio is None else self.ratio
        return value >= self.bar if self.at_least else value <= self.bar


def tell(name: str, rows: Sequence[Row], *, facts: dict[str, object]) -> None:
    """Print the table and its last line, and write build/bench/<name>.json."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    document = {"facts": facts, "rows": [{**asdict(row), "ratio": row.ratio, "holds": row.holds} for row in rows]}
    (FOLDER / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    judged = [row for row in rows if row.holds is not None]
    print(f"bars: {sum(bool(row.holds) for row in judged)} of {len(judged)} hold")


def _cells(row: Row) -> tuple[str, ...]:
    unit = f" {row.unit}" if row.unit else ""
    bar = "" if row.bar is None else f"{'≥' if row.at_least else '≤'} {row.bar:g}{'×' if row.ratio else unit}"
    return (
        row.measure,
        _number(row.ours) + unit,
        "" if row.reference is None else _number(row.reference) + unit,
        "" if row.ratio is None else f"{row.ratio:.2f}×",
        bar,
        {True: "holds", False: "short", None: ""}[row.holds],
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
