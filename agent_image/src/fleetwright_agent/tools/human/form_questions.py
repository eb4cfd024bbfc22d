"""The fields of a form as single questions, for clients that show no forms. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.tools.typed_text import typed_value


@dataclass(frozen=True, slots=True)
class FormQuestion:
    """One field of a form."""

    name: str
    text: str
    schema: Mapping[str, Any]

    @property
    def choices(self) -> tuple[str, ...]:
        listed = self._listed.get("enum")
        return tuple(map(str, listed)) if isinstance(listed, list) else ()

    @property
    def multiple(self) -> bool:
        """True if the field takes several values."""
        return self.schema.get("type") == "array"

    @property
    def _listed(self) -> Mapping[str, Any]:
        items = self.schema.get("items") if self.multiple else self.schema
        return items if isinstance(items, Mapping) else {}

    def value(self, answer: Sequence[str]) -> Any:
        """Return the value of the field for an answer."""
        if self.multiple:
            return [typed_value(text, self._listed) for text in answer]
        return typed_value(", ".join(answer), self.schema)


def form_questions(payload: Mapping[str, Any]) -> tuple[FormQuestion, ...]:
    """Return the fields of all steps of a form, sorted by name within a step.

    A message does not keep the order in which the form lists its fields.

    Args:
        payload: The form as hitl-v1.
    """
    return tuple(_questions(payload.get("steps")))


def _questions(steps: Any) -> Iterator[FormQuestion]:
    for step in steps if isinstance(steps, list) else ():
        schema = step.get("schema") if isinstance(step, Mapping) else None
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for name, field in sorted(properties.items()) if isinstance(properties, Mapping) else ():
            known = field if isinstance(field, Mapping) else {}
            yield FormQuestion(name, _text(name, known), known)


def _text(name: str, field: Mapping[str, Any]) -> str:
    title, description = field.get("title"), field.get("description")
    said = title if isinstance(title, str) and title else name
    return f"{said}: {description}" if isinstance(description, str) and description else said
