"""Tuning of Python's garbage collector for a long-running server: fewer collections, which skip permanent objects."""

import gc
from typing import Final

_OBJECTS: Final = 10_000
"""The threshold of the youngest generation. A request creates few reference cycles. With Python's default of 700, a
collection runs at every second request and takes 5 % of the time. A turn of a long conversation triggers some hundred
collections.
"""


def settle() -> None:
    """Exclude all current objects from garbage collection. Call this again after large imports."""
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
