"""How often Python looks for garbage. A burst makes many objects, nearly all of which their reference counts free."""

import gc

_OBJECTS = 10_000
"""New objects between two collections; Python's own threshold is 700."""


def collect_seldom() -> None:
    """Leave what lives now, which is modules and the first lists, out of all later collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
