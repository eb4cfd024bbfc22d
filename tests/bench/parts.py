"""Runs the parts of a benchmark in sequence. A part that fails counts as a missed bar and does not stop the others."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tests.bench.table import Row

Part = Callable[..., Awaitable[Sequence[Row]]]


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
