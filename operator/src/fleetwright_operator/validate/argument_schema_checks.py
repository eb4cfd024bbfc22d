"""Checks that the schemas for tool arguments can be evaluated.

This module does not validate the schemas completely; the preflight of the revision does.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_api.violation import Violation
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def rules_can_be_kept(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for rule in observed.agent.spec.enforcement.arguments or ():
        place = f"spec.enforcement.arguments[{rule.tool}].schema"
        if problem := next(_problems(rule.schema), None):
            yield Violation("ArgumentSchema", f"{place} {problem}")


def _problems(schema: Mapping[str, Any]) -> Iterator[str]:
    rest: list[Any] = [schema]
    while rest:
        value = rest.pop()
        if isinstance(value, Mapping):
            if "patternProperties" in value:
                yield "has patternProperties, whose patterns may run without end; use propertyNames and properties"
            for name in _REFERENCES:
                if isinstance(to := value.get(name), str) and not to.startswith("#"):
                    yield f"refers to {to!r}, which is not fetched; move it to $defs and refer to it there"
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
