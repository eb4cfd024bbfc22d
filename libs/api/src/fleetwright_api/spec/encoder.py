"""Encodes views as JSON values, for the parts of a spec that the operator copies unchanged to another document."""

from functools import cache
from typing import Any, Final, cast

from fleetwright_api.spec.fields import crd_fields, crd_name

_SCALARS: Final = frozenset({str, int, bool})


def encode(view: Any) -> dict[str, Any]:
    """Return the JSON object of a view, with the names of the CRD.

    Fields with their default value are omitted, so that a new, unused field does not change the document.
    """
    found: dict[str, Any] = {}
    for name, attribute, default in _fields(cast("Any", type(view))):
        value = getattr(view, attribute)
        if value is not default and value != default:
            found[name] = _encoded(value)
    return found


@cache
def _fields(view: Any) -> tuple[tuple[str, str, Any], ...]:
    return tuple((crd_name(each), each.name, each.default) for each in crd_fields(view))


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is tuple:
        return [_encoded(item) for item in value]
    return dict(value) if kind is dict else encode(value)
