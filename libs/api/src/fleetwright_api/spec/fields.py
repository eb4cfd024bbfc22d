"""Metadata of a view's fields: the name in the CRD, and the values of an enumeration.

The CRD requires a field that has no default here. An optional field has the default that the CRD documents, or None.
None is used if an unset field and an empty field have different meanings, or if the runtime applies the default.
"""

from dataclasses import MISSING, Field, field, fields
from typing import Any, Final

_ABBREVIATIONS: Final = {"cidrs": "CIDRs", "ttl": "TTL", "url": "URL"}
_CHECKED: Final = "checked"
_NAME: Final = "name"
_WORDS: Final = "words"


def named(name: str, *, default: Any = MISSING) -> Any:
    """Declare a field whose name in the CRD cannot be derived from its name in Python."""
    return field(default=default, metadata={_NAME: name})


def checked(empty: Any) -> Any:
    """Declare a required field. If it is missing, a later check, not the decoder, reports a specific reason."""
    return field(default=empty, metadata={_CHECKED: True})


def one_of(*words: str, default: Any = MISSING) -> Any:
    """Declare a field with the values of an enumeration, or a list of such values.

    The view keeps an unknown value in addition to the violation, so that no code mistakes it for the default.
    """
    return field(default=default, metadata={_WORDS: words})


def crd_fields(view: Any) -> tuple[Field[Any], ...]:
    """Return the fields of a view that exist in the CRD, without the fields that the view derives from others."""
    return tuple(each for each in fields(view) if each.init)


def crd_name(view_field: Field[Any]) -> str:
    """Return the name of the field in the CRD: `base_url` is `baseURL`, and `from_` is `from`."""
    if _NAME in view_field.metadata:
        return str(view_field.metadata[_NAME])
    first, *rest = view_field.name.rstrip("_").split("_")
    return first + "".join(_ABBREVIATIONS.get(part, part.capitalize()) for part in rest)


def words_of(view_field: Field[Any]) -> tuple[str, ...]:
    """Return the values of an enumeration; empty if the field is not an enumeration."""
    words: tuple[str, ...] = view_field.metadata.get(_WORDS, ())
    return words


def is_required(view_field: Field[Any]) -> bool:
    return not has_default(view_field) or _CHECKED in view_field.metadata


def has_default(view_field: Field[Any]) -> bool:
    return view_field.default is not MISSING or view_field.default_factory is not MISSING
