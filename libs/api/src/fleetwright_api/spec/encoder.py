"""Encodes views as JSON values, for the parts of a spec that another document contains as they are."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, cast

from fleetwright_api.spec.fields import crd_name


def encode(view: Any) -> dict[str, Any]:
    """Return the JSON object of a view, with the names of the CRD.

    Fields that have their default are omitted. So an unused feature does not change the document.
    """
    found = ((name, getattr(view, attribute), default) for name, attribute, default in _fields(cast("Any", type(view))))
    return {name: _encoded(value) for name, value, default in found if value != default}


@cache
def _fields(view: Any) -> tuple[tuple[str, str, Any], ...]:
    return tuple((crd_name(each), each.name, each.default) for each in fields(view))


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        return encode(value)
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value
