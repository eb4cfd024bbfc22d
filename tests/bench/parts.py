"""The parts of a benchmark, and the options of its command line that choose them."""

import argparse
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.table import Row


@dataclass(frozen=True)
class Part:
    """A measure of a benchmark, and the arguments of its smallest form."""

    measure: Callable[..., Sequence[Row] | Awaitable[Sequence[Row]]]
    smoke: Mapping[str, Any] | None = field(default_factory=dict)
    """The arguments of the smallest form, or None if a test runs it already."""


def add_parts_option(parser: argparse.ArgumentParser, parts: Collection[str]) -> None:
    """Add the option `--parts`. Its value is the list of the chosen parts; all parts without the option."""
    parser.add_argument(
        "--parts",
        type=partial(_chosen, list(parts)),
        default=list(parts),
        metavar="PART,…",
        help=f"the parts to run, in this order: {','.join(parts)}",
    )


def _chosen(parts: Sequence[str], text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in parts]:
        listed = ", ".join(repr(name) for name in unknown)
        raise argparse.ArgumentTypeError(f"there is no part {listed}; the parts are {', '.join(parts)}")
    return names


def make_parser(bench: str, description: str, parts: Collection[str]) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{bench}_bench", description=description)
    add_parts_option(parser, parts)
    parser.add_argument("--smoke", action="store_true", help="the smallest form of each part, which shows that it runs")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"the file of the figures, not build/bench/{bench}.json"
    )
    return parser


def list_benches() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.stem.removesuffix("_bench") for path in Path(__file__).parent.glob("*_bench.py"))
