"""Whether arguments fit a JSON Schema, found out in a time that has an end, whoever wrote the schema.

Refuses: leaving this process for what a schema refers to; another dialect below a schema's root, whose keywords would
not be these; patterns of strangers; and `patternProperties`, which jsonschema matches without an end.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import jsonschema
import referencing
import regex  # type: ignore[import-untyped]  # it has no types
from jsonschema.validators import extend, validator_for

_SECONDS: Final = 0.25
"""A fit is found in a few milliseconds; meanwhile nothing else runs."""
_LARGEST: Final = 50_000
"""Values in a schema."""
# Knows no address: what a schema refers to must not send this process anywhere.
_NO_SCHEMAS: Final[referencing.Registry[Any]] = referencing.Registry()
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_FORMER: Final = (jsonschema.Draft3Validator, jsonschema.Draft4Validator)
"""Dialects in which `id` names a schema."""
_Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterable[jsonschema.ValidationError] | None]


class Undecided(Exception):  # noqa: N818 - states what became of the question
    """The schema cannot be read, refers to elsewhere, or takes too long."""


@dataclass(frozen=True, slots=True)
class _Look:
    ends: float
    patterns: bool

    @property
    def left(self) -> float:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise Undecided("it takes too long")
        return left


_look: ContextVar[_Look] = ContextVar("look")


def misfit(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], *, patterns: bool
) -> jsonschema.ValidationError | None:
    """What does not fit, if anything; where `patterns` is not set, those of the schema are passed over.

    Raises: Undecided.
    """
    before = _look.set(_Look(time.monotonic() + _SECONDS, patterns))
    try:
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        _readable(schema, kind, patterns=patterns)
        errors = _bounded(kind)(schema, registry=_NO_SCHEMAS).iter_errors(dict(arguments))
        found: jsonschema.ValidationError | None = jsonschema.exceptions.best_match(errors)
    except Undecided:
        raise
    except Exception as error:
        # A schema of strangers breaks the reader in many ways, recursion without end among them.
        raise Undecided("it cannot be read") from error
    finally:
        _look.reset(before)
    return found


def unusable(schema: Mapping[str, Any]) -> str:
    """Why no call could ever be held against this schema, whatever its arguments; empty where one could."""
    try:
        _readable(schema, validator_for(schema, default=jsonschema.Draft202012Validator), patterns=True)
    except Undecided as undecided:
        return str(undecided)
    return ""


def _readable(schema: Mapping[str, Any], kind: Any, *, patterns: bool) -> None:
    """Nothing may lead to where another reader goes on, who knows neither the clock nor what is passed over."""
    names = {"$schema", "$id"} | ({"id"} if kind in _FORMER else set())
    rest: list[Any] = [{key: value for key, value in schema.items() if key not in names}]
    seen = 0
    while rest:
        seen += 1
        if seen > _LARGEST:
            raise Undecided("it is too large")
        value = rest.pop()
        if isinstance(value, list | tuple):
            rest.extend(value)
        elif isinstance(value, Mapping):
            if patterns and "patternProperties" in value:
                raise Undecided("patternProperties is not supported; use propertyNames and properties")
            for name in names:
                if isinstance(value.get(name), str):
                    raise Undecided(f"{name} is not supported below the root of a schema")
            if any(isinstance(to := value.get(name), str) and not to.startswith("#") for name in _REFERENCES):
                raise Undecided("it refers to outside of itself")
            rest.extend(value.values())


@cache
def _bounded(kind: Any) -> Any:
    """The same dialect, whose every keyword looks at the clock."""
    own = {
        "pattern": _pattern,
        "uniqueItems": _unique,
        "patternProperties": _passed_over,
        "additionalProperties": _additional(kind.VALIDATORS.get("additionalProperties", _passed_over)),
        "unevaluatedProperties": _unevaluated(kind.VALIDATORS.get("unevaluatedProperties", _passed_over)),
    }
    known = {name: own.get(name, keyword) for name, keyword in kind.VALIDATORS.items()}
    timed = {name: _timed(keyword) for name, keyword in known.items()}
    return extend(kind, timed)  # type: ignore[no-untyped-call]  # its stubs leave it open


def _timed(keyword: _Keyword) -> _Keyword:
    def timed(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        _ = _look.get().left
        return keyword(validator, value, instance, schema)

    return timed


def _pattern(validator: Any, pattern: str, instance: Any, _: Mapping[str, Any]) -> Iterator[jsonschema.ValidationError]:
    look = _look.get()
    if not look.patterns or not validator.is_type(instance, "string"):
        return
    try:
        found = regex.search(pattern, instance, timeout=look.left)
    except TimeoutError:
        raise Undecided("its pattern takes too long") from None
    if not found:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique(
    validator: Any,
    wanted: Any,
    instance: Any,
    schema: Mapping[str, Any],  # noqa: ARG001 - what every keyword is given
) -> Iterator[jsonschema.ValidationError]:
    """The library holds each item against every other one; what is said of each, once, finds the same."""
    if not wanted or not validator.is_type(instance, "array"):
        return
    seen: set[str] = set()
    for item in instance:
        _ = _look.get().left
        said = json.dumps(_alike(item), sort_keys=True)
        if said in seen:
            yield jsonschema.ValidationError(f"{instance!r} has non-unique elements")
            return
        seen.add(said)


def _alike(value: Any) -> Any:
    """Equal values of JSON Schema become equal: 1.0 is 1, and true is neither."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _alike(inner) for key, inner in value.items()}
    return [_alike(inner) for inner in value] if isinstance(value, list) else value


def _passed_over(*_: Any) -> None:
    return None


def _additional(keyword: _Keyword) -> _Keyword:
    def additional(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        return None if "patternProperties" in schema else keyword(validator, value, instance, schema)

    return additional


def _unevaluated(keyword: _Keyword) -> _Keyword:
    """It looks for `patternProperties` in all that the schema consists of, which only our own surely have not."""

    def unevaluated(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        return keyword(validator, value, instance, schema) if _look.get().patterns else None

    return unevaluated
