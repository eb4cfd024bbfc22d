"""Equal values kept once, for as long as somebody has one: a cache of fixed size would keep those of objects that went.

Thousands of children have the labels of their siblings, the owner of their siblings, and one of a handful of field
sets.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

Value = TypeVar("Value")


class SharedDict(dict[str, Any]):
    """A dict that can be let go of: a plain one has no weak references. Never changed once it is shared."""

    __slots__ = ("__weakref__",)


class Shared(Generic[Value]):
    def __init__(self) -> None:
        self._kept: WeakValueDictionary[Hashable, Value] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of that key, made where nobody has it."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found
