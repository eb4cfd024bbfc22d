"""One property, its new value, and its path in a spec. Pure."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

Path = tuple[str, ...]
ITEM = "[]"
"""The path element for the first item of a list."""


@dataclass(frozen=True)
class Edit:
    """A new value for a property. None removes the property."""

    path: Path
    value: Any
    within: tuple["Edit", ...] = ()
    """The edits that create the missing objects and lists around it, outermost first."""

    def applied(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the spec with the edit applied.

        Raises LookupError, AttributeError or TypeError if the spec has another structure at the path.
        """
        whole = copy.deepcopy(dict(spec))
        for outer in self.within:
            if at(whole, outer.path) in (None, []):
                whole = outer.applied(whole)
        place: Any = whole
        for step, following in pairwise(self.path):
            place = place[0] if step == ITEM else place.setdefault(step, [] if following == ITEM else {})
        if self.value is None:
            place.pop(self.path[-1], None)
        else:
            place[self.path[-1]] = copy.deepcopy(self.value)
        return whole

    def unset(self) -> "Edit":
        """Return an edit that removes the property.

        The objects and lists that contain the property stay, or are created.
        """
        return replace(self, value=None)

    @property
    def opens(self) -> bool:
        """Return True if the value has properties."""
        return isinstance(self.value, dict) or (
            isinstance(self.value, list) and bool(self.value) and isinstance(self.value[0], dict)
        )

    def __str__(self) -> str:
        what = "unset" if self.value is None else f"= {str(self.value)[:60]!r}"
        return f"{'.'.join(self.path)} {what}"


def at(spec: Mapping[str, Any], path: Path) -> Any:
    """Return the value at the path, or None."""
    place: Any = spec
    for step in path:
        if step == ITEM:
            place = place[0] if isinstance(place, list) and place else None
        else:
            place = place.get(step) if isinstance(place, Mapping) else None
    return place
