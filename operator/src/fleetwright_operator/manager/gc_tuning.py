"""Tuning of Python's garbage collector. Reconciles create many objects; reference counts free nearly all of them."""

import gc

_OBJECTS = 10_000
"""New objects between two collections. Python's default threshold is 700."""


def tune_gc() -> None:
    """Exclude all objects that exist now, such as modules and the first lists, from later collections."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
