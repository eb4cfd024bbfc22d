"""A form that a person fills in field by field. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.terminal.model.values import PendingAsk

_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


class InvalidField(ValueError):  # noqa: N818 - describes the input
    """The text is not a value of the field."""


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    title: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def choices(self) -> tuple[Any, ...]:
        listed = self.schema.get("enum")
        return tuple(listed) if isinstance(listed, list) else ()

    @property
    def prompt(self) -> str:
        """The question for the person, with the accepted values."""
        kind = self.schema.get("type")
        hint = " or ".join(map(str, self.choices)) or {"boolean": "yes or no"}.get(str(kind), "")
        optional = "" if self.required else "optional"
        about = ", ".join(filter(None, (hint, optional)))
        return f"{self.title} ({about})" if about else self.title


@dataclass(frozen=True, slots=True)
class FormProgress:
    """The fields of a form, and the values so far."""

    ask: PendingAsk
    fields: tuple[FormField, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    at: int = 0

    @property
    def current(self) -> FormField | None:
        """The next field, or None if the form is complete."""
        return self.fields[self.at] if self.at < len(self.fields) else None

    def with_text(self, text: str) -> "FormProgress":
        """Return the form after a value for the current field. Raises: InvalidField."""
        current = self.current
        if current is None:
            return self
        if not text.strip():
            if current.required:
                raise InvalidField(f"{current.title}: a value is required")
            return replace(self, at=self.at + 1)
        value = field_value(current, text.strip())
        return replace(self, values={**self.values, current.name: value}, at=self.at + 1)


def form_of(ask: PendingAsk) -> FormProgress:
    """Return the empty form of an ask."""
    return FormProgress(ask, tuple(found for step in ask.steps for found in _fields(step.get("schema"))))


def field_value(form_field: FormField, text: str) -> Any:
    """Return the value of a text in the type of the field. Raises: InvalidField."""
    if form_field.choices:
        for choice in form_field.choices:
            if text == str(choice):
                return choice
        raise InvalidField(f"{form_field.title}: choose one of {', '.join(map(str, form_field.choices))}")
    match form_field.schema.get("type"):
        case "boolean":
            if text.lower() not in _TRUE | _FALSE:
                raise InvalidField(f"{form_field.title}: answer yes or no")
            return text.lower() in _TRUE
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                raise InvalidField(f"{form_field.title}: enter a number") from None
        case "array" | "object" as kind:
            return _json(form_field, text, list if kind == "array" else dict)
    return text


def _json(form_field: FormField, text: str, wanted: type[Any]) -> Any:
    try:
        value = read_json(text)
    except ValueError:
        value = None
    if not isinstance(value, wanted):
        raise InvalidField(f"{form_field.title}: enter JSON, such as {json.dumps(wanted())}")
    return value


def _fields(schema: Any) -> Sequence[FormField]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ()
    required = schema.get("required")
    wanted = required if isinstance(required, list) else ()
    return [
        FormField(str(name), str(about.get("title") or name), about, name in wanted)
        for name, about in properties.items()
        if isinstance(about, Mapping)
    ]
