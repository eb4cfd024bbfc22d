"""Metadata of the fields of a view: the name in the CRD, and the words of an enumeration.

A field without a default is required by the CRD. An optional field has the CRD's documented default. The default is
None if unset and empty values differ, or if the runtime applies the default.
"""

from dataclasses import MISSING, Field, field, fields
from typing import Any, Final

_ABBREVIATIONS: Final = {"cidrs": "CIDRs", "ttl": "TTL", "url": "URL"}
_CHECKED: Final = "checked"
_NAME: Final = "name"
_WORDS: Final = "words"


def named(name: str, *, default: Any = MISSING) -> Any:
    """Declare a field whose name in the CRD does not follow from its name in Python."""
    return field(default=default, metadata={_NAME: name})


def checked(empty: Any) -> Any:
    """Declare a required field whose absence a check reports with a reason of its own."""
    return field(default=empty, metadata={_CHECKED: True})


def one_of(*words: str, default: Any = MISSING) -> Any:
    """Declare an enumeration, or a list of words from an enumeration.

    The view keeps an unknown word in addition to the violation. So a decision never mistakes it for the default.
    """
    return field(default=default, metadata={_WORDS: words})


def crd_fields(view: Any) -> tuple[Field[Any], ...]:
    """Return the fields of a view that the CRD has. Fields that a view derives from others are left out."""
    return tuple(each for each in fields(view) if each.init)


def crd_name(view_field: Field[Any]) -> str:
    """Return the name of the field in the CRD: `base_url` is `baseURL`, and `from_` is `from`."""
    if _NAME in view_field.metadata:
        return str(view_field.metadata[_NAME])
    first, *rest = view_field.name.rstrip("_").split("_")
    return first + "".join(_ABBREVIATIONS.get(part, part.capitalize()) for part in rest)


def words_of(view_field: Field[Any]) -> tuple[str, ...]:
    """Return the words of an enumeration; empty if the field is not an enumeration."""
    words: tuple[str, ...] = view_field.metadata.get(_WORDS, ())
    return words


def is_required(view_field: Field[Any]) -> bool:
    return not has_default(view_field) or _CHECKED in view_field.metadata


def has_default(view_field: Field[Any]) -> bool:
    return view_field.default is not MISSING or view_field.default_factory is not MISSING
