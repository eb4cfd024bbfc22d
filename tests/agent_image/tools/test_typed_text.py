"""Texts that a person has typed, restored to the types of a schema."""

import math

import pytest

from fleetwright_agent.tools.typed_text import typed_arguments, typed_value

OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("value", "schema", "typed"),
    [
        pytest.param("12", {"type": "integer"}, 12, id="an integer"),
        pytest.param(" 12 ", {"type": "integer"}, 12, id="spaces around"),
        pytest.param("1.5", {"type": "number"}, 1.5, id="a number"),
        pytest.param("12", {"type": "number"}, 12, id="a whole number"),
        pytest.param("True", {"type": "boolean"}, True, id="a truth value, as Python writes it"),
        pytest.param("false", {"type": "boolean"}, False, id="a truth value"),
        pytest.param('["a", 1]', {"type": "array"}, ["a", 1], id="a list"),
        pytest.param('{"a": 1}', {"type": "object"}, {"a": 1}, id="an object"),
        pytest.param("null", OPTIONAL, None, id="nothing, where it may be"),
        pytest.param("7", OPTIONAL, 7, id="one of the alternatives"),
        pytest.param("7", {"type": ["integer", "null"]}, 7, id="one of the types"),
        pytest.param("12", {"type": "string"}, "12", id="a text stays"),
        pytest.param("12", {"type": ["string", "integer"]}, "12", id="a text stays where it may be one"),
        pytest.param("12", {"anyOf": [{"type": "integer"}, {}]}, "12", id="a text stays where anything may be"),
        pytest.param("12", {}, "12", id="a schema that says nothing"),
        pytest.param("12", None, "12", id="no schema"),
        pytest.param("much", {"type": "integer"}, "much", id="a text that is no number"),
        pytest.param("true", {"type": "integer"}, "true", id="a truth value is no integer"),
        pytest.param("1", {"type": "boolean"}, "1", id="a number is no truth value"),
        pytest.param("1.5", {"type": "integer"}, "1.5", id="a fraction is no integer"),
        pytest.param("NaN", {"type": "number"}, "NaN", id="no number of JSON"),
        pytest.param("1e999", {"type": "number"}, "1e999", id="too large a number"),
        pytest.param("[" * 100_000, {"type": "array"}, "[" * 100_000, id="brackets without end"),
        pytest.param(12, {"type": "string"}, 12, id="what is no text stays"),
    ],
)
def test_typed_value_restores_types(value, schema, typed):
    found = typed_value(value, schema)
    assert found == typed
    assert type(found) is type(typed)
    assert not (isinstance(found, float) and math.isnan(found))


def test_typed_arguments_use_the_schema_of_each_argument():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "name": {"type": "string"}}}
    assert typed_arguments({"n": "4", "name": "4", "more": "4"}, schema) == {"n": 4, "name": "4", "more": "4"}
    assert typed_arguments({"n": "4"}, {"type": "object", "properties": []}) == {"n": "4"}
