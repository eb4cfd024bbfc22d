"""Validates arguments against an untrusted JSON Schema in bounded CPU time.

This module does not resolve references to other documents. It rejects `$schema` and `$id` below a schema's root,
because the keywords of another dialect would bypass the time limit. It does not evaluate untrusted patterns. It rejects
`patternProperties`, which jsonschema matches without a time limit.
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
"""The limit of the CPU time of a validation, which blocks the event loop. Validation normally takes a few milliseconds.

A limit of the wall-clock time would refuse valid arguments while other programs use the processors.
"""
_LARGEST: Final = 50_000
"""The largest number of values in a schema."""
# An empty registry: a reference in a schema must not cause a network request.
_NO_SCHEMAS: Final[referencing.Registry[Any]] = referencing.Registry()
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_FORMER: Final = (jsonschema.Draft3Validator, jsonschema.Draft4Validator)
"""The dialects in which `id` names a schema."""
_Keyword = Callable[[Any, Any, Any, Mapping[str, Any]], Iterable[jsonschema.ValidationError] | None]


class UndecidableSchema(Exception):  # noqa: N818 - describes the schema
    """The schema is invalid, refers to other documents, or takes too long to evaluate."""


@dataclass(frozen=True, slots=True)
class _Look:
    ends: float
    patterns: bool

    @property
    def left(self) -> float:
        left = self.ends - time.thread_time()
        if left <= 0:
            raise UndecidableSchema("it takes too long")
        return left


_look: ContextVar[_Look] = ContextVar("look")


def validation_error(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], *, patterns: bool
) -> jsonschema.ValidationError | None:
    """Return the most relevant validation error, or `None`. If `patterns` is False, the schema's patterns are ignored.

    Raises: UndecidableSchema.
    """
    before = _look.set(_Look(time.thread_time() + _SECONDS, patterns))
    try:
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        _readable(schema, kind, patterns=patterns)
        errors = _bounded(kind)(schema, registry=_NO_SCHEMAS).iter_errors(dict(arguments))
        found: jsonschema.ValidationError | None = jsonschema.exceptions.best_match(errors)
    except UndecidableSchema:
        raise
    except Exception as error:
        # An untrusted schema can fail in many ways, such as infinite recursion.
        raise UndecidableSchema("it cannot be read") from error
    finally:
        _look.reset(before)
    return found


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return the reason why the schema cannot be used to validate arguments; an empty text if it can be used."""
    try:
        _readable(schema, validator_for(schema, default=jsonschema.Draft202012Validator), patterns=True)
    except UndecidableSchema as undecided:
        return str(undecided)
    return ""


def _readable(schema: Mapping[str, Any], kind: Any, *, patterns: bool) -> None:
    """Reject a schema that would switch to a validator without the time limit or the replaced keywords."""
    names = {"$schema", "$id"} | ({"id"} if kind in _FORMER else set())
    rest: list[Any] = [{key: value for key, value in schema.items() if key not in names}]
    seen = 0
    while rest:
        seen += 1
        if seen > _LARGEST:
            raise UndecidableSchema("it is too large")
        value = rest.pop()
        if isinstance(value, list | tuple):
            rest.extend(value)
        elif isinstance(value, Mapping):
            if patterns and "patternProperties" in value:
                raise UndecidableSchema("patternProperties is not supported; use propertyNames and properties")
            for name in names:
                if isinstance(value.get(name), str):
                    raise UndecidableSchema(f"{name} is not supported below the root of a schema")
            if any(isinstance(to := value.get(name), str) and not to.startswith("#") for name in _REFERENCES):
                raise UndecidableSchema("it refers to outside of itself")
            rest.extend(value.values())


@cache
def _bounded(kind: Any) -> Any:
    """Return a validator of the same dialect whose keywords all check the time limit."""
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
        raise UndecidableSchema("its pattern takes too long") from None
    if not found:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique(
    validator: Any,
    wanted: Any,
    instance: Any,
    schema: Mapping[str, Any],  # noqa: ARG001 - the signature of a keyword
) -> Iterator[jsonschema.ValidationError]:
    """Find duplicates by canonical JSON; the library compares each pair of items, which takes quadratic time."""
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
    """Normalize equal JSON values to equal Python values: 1.0 becomes 1, and true stays distinct from 1."""
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
    """Skip the keyword for untrusted schemas, because it evaluates `patternProperties` in every subschema."""

    def unevaluated(validator: Any, value: Any, instance: Any, schema: Mapping[str, Any]) -> Any:
        return keyword(validator, value, instance, schema) if _look.get().patterns else None

    return unevaluated
