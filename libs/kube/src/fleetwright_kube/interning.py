"""Shares one instance of equal values (interning) while they are in use.

A child object has the same labels and owner as its siblings. The operator applies a few different sets of fields to
thousands of objects. A cache of fixed size would keep the values of deleted objects.
"""

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

Value = TypeVar("Value")


class InternedDict(dict[str, Any]):
    """A dict that supports weak references, which a plain dict does not. It must not be changed once it is shared."""

    __slots__ = ("__weakref__",)


class InternPool(Generic[Value]):
    def __init__(self) -> None:
        self._kept: WeakValueDictionary[Hashable, Value] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of the key, creating it if it is not in use."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found
