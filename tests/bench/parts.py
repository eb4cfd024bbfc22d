"""Chooses the parts of a benchmark, and runs them in sequence.

A part that fails counts as a missed bar and does not stop the others.
"""

import argparse
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from tests.bench.table import Row

Part = Callable[..., Awaitable[Sequence[Row]]]


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


async def rows_of(
    parts: Mapping[str, Part], *on: Any, options: Mapping[str, Mapping[str, Any]] | None = None
) -> list[Row]:
    """Run the parts and return their rows.

    Args:
        on: the first argument of every part, which also gets its own options by name.
    """
    rows: list[Row] = []
    for name, part in parts.items():
        began = time.monotonic()
        try:
            rows += await part(*on, **(options or {}).get(name, {}))
        except Exception as error:
            print(f"  {name} broke: {error!r}", flush=True)
            rows.append(Row(f"{name}: broke", 1.0, "", 0.0))
        print(f"  {name} took {time.monotonic() - began:.0f} s", flush=True)
    return rows
