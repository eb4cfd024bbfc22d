"""Untrusted schemas: validation has a time limit and does not fetch references."""

from typing import Any

import jsonschema
import pytest

from fleetwright_agent.security.argument_schemas import UndecidableSchema, validation_error

WORD = {"x": "a" * 90 + "!"}
EVIL = {"properties": {"x": {"pattern": "^(a|aa)+$"}}}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def doubled(levels: int) -> dict[str, Any]:
    """Return a schema in which each level references the next level twice."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/s0", "$defs": {**steps, f"s{levels}": {"type": "object"}}}


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param(EVIL, "its pattern takes too long", id="a pattern that backtracks"),
        pytest.param({"$ref": "#"}, "cannot be read", id="a schema that is itself"),
        pytest.param(doubled(60), "it takes too long", id="one that asks itself twice at each level"),
        pytest.param(deep(5000), "cannot be read", id="one that is nested deeply"),
        pytest.param({"enum": [0] * 100_000}, "too large", id="a large one"),
        pytest.param({"properties": {"x": {"pattern": "("}}}, "cannot be read", id="a pattern that is none"),
        pytest.param({"properties": {"x": {"type": "nope"}}}, "cannot be read", id="a type that is none"),
        pytest.param({"$ref": "https://example.com/x"}, "outside of itself", id="a reference to an address"),
        pytest.param({"$ref": DIALECT}, "outside of itself", id="a reference to what is known by name"),
        pytest.param({"patternProperties": {"^(a|aa)+$": {}}}, "not supported", id="patterns of names"),
        pytest.param({"allOf": [{"patternProperties": {}}]}, "not supported", id="patterns of names, further in"),
        pytest.param({"allOf": [{"$id": DIALECT, "$ref": "#"}]}, "not supported", id="such a name within"),
        pytest.param(
            {"properties": {"x": {"$schema": DIALECT, "pattern": "^(a|aa)+$"}}}, "not supported", id="a dialect within"
        ),
    ],
)
def test_validation_error_fails_fast_for_undecidable_schemas(schema: dict[str, Any], why: str) -> None:
    """Without the limits of the code, a pattern that backtracks would run until the time limit of the test."""
    with pytest.raises(UndecidableSchema, match=why):
        validation_error(WORD, schema, patterns=True)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(EVIL, id="of values"),
        pytest.param({"patternProperties": {"^(a|aa)+$": False}}, id="of names"),
        pytest.param({"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False}, id="of what is more"),
        pytest.param(
            {"allOf": [{"patternProperties": {"^(a|aa)+$": {}}}], "unevaluatedProperties": False}, id="of what is left"
        ),
    ],
)
def test_validation_error_does_not_run_untrusted_patterns(schema: dict[str, Any]) -> None:
    """Matching any of the patterns takes longer than the time limit of a test."""
    assert validation_error({**WORD, "a" * 90 + "!": 1}, schema, patterns=False) is None


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-07/schema#", DIALECT])
@pytest.mark.parametrize(
    ("schema", "arguments", "wrong"),
    [
        pytest.param({"properties": {"x": {"pattern": "^/srv/"}}}, {"x": "/srv/a"}, None, id="a pattern that fits"),
        pytest.param({"properties": {"x": {"pattern": "^/srv/"}}}, {"x": "/etc"}, "does not match", id="and does not"),
        pytest.param({"additionalProperties": False}, {"x": 1}, "Additional properties", id="what is more"),
        pytest.param({"properties": {"x": {"maximum": 5}}}, {"x": 6}, "greater than the maximum", id="a bound"),
        pytest.param({"properties": {"pattern": {"type": "string"}}}, {"pattern": "("}, None, id="a name like it"),
    ],
)
def test_validation_error_applies_trusted_schemas(
    dialect: str, schema: dict[str, Any], arguments: dict[str, Any], wrong: str | None
) -> None:
    found = validation_error(arguments, {"$schema": dialect, **schema}, patterns=True)
    assert (found is None) if wrong is None else (found is not None and wrong in found.message)


ALIKE = [
    pytest.param([1, 1.0], True, id="1 and 1.0 are equal"),
    pytest.param([1, True], False, id="1 and true are not"),
    pytest.param([0, False], False, id="0 and false are not"),
    pytest.param([{"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}], True, id="objects in another order"),
    pytest.param(["1", 1], False, id="a text and a number"),
    pytest.param([[1, 2], [2, 1]], False, id="lists in another order"),
    pytest.param([None, None], True, id="nothing, twice"),
    pytest.param([{"a": i} for i in range(2_000)], False, id="very many"),
]


@pytest.mark.parametrize(("items", "twice"), ALIKE)
def test_validation_error_agrees_with_jsonschema_on_uniqueness(items: list[Any], twice: bool) -> None:
    schema = {"properties": {"items": {"uniqueItems": True}}}
    assert (validation_error({"items": items}, schema, patterns=True) is not None) is twice
    if len(items) < 100:
        assert jsonschema.Draft202012Validator(schema).is_valid({"items": items}) is not twice
