"""Declarations of tools get a form that every provider accepts, and accept what the schema of the tool accepts."""

import json

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwright_agent.turn.providers.tool_declarations import normalise_root

_TEXT = {"type": "string"}
_EMPTY = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"type": "object"}, _EMPTY, id="no properties"),
        pytest.param({}, _EMPTY, id="an empty schema"),
        pytest.param(None, _EMPTY, id="no schema"),
        pytest.param(True, _EMPTY, id="a schema that is true"),
        pytest.param({"type": "object", "properties": None, "required": None}, _EMPTY, id="properties that are null"),
        pytest.param({"properties": {"a": _TEXT}}, {**_EMPTY, "properties": {"a": _TEXT}}, id="no type"),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "array"}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            id="a list of unknown items",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": ["array", "null"]}}},
            {"type": "object", "properties": {"a": {"type": ["array", "null"], "items": {}}}},
            id="a list or null",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "array", "items": [_TEXT, _EMPTY]}}},
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            id="items by their place",
        ),
        pytest.param(
            {"properties": {"a": {"type": "array", "items": [_TEXT, _EMPTY], "additionalItems": False}}},
            {
                "type": "object",
                "properties": {
                    "a": {"type": "array", "items": {"anyOf": [_TEXT, _EMPTY]}, "additionalItems": False}
                },
            },
            id="items by their place and no others",
        ),
        pytest.param(
            {"properties": {"a": {"type": "array", "items": _TEXT, "anyOf": [{"minItems": 1}]}}},
            {
                "type": "object",
                "properties": {"a": {"items": _TEXT, "anyOf": [{"type": "array", "minItems": 1, "items": {}}]}},
            },
            id="a type beside a union",
        ),
        pytest.param(
            {"oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}]},
            {"type": "object", "properties": {"kind": {"anyOf": [{"enum": ["a"]}, {"enum": ["b"]}]}}},
            id="branches with different values",
        ),
        pytest.param(
            {
                "oneOf": [{"$ref": "#/$defs/A"}, {"anyOf": [{"$ref": "#/$defs/B"}]}],
                "additionalProperties": False,
                "$defs": {"A": {"properties": {"a": _TEXT}}, "B": {"properties": {"b": _TEXT}}},
            },
            {
                "$defs": {"A": {"properties": {"a": _TEXT}}, "B": {"properties": {"b": _TEXT}}},
                "type": "object",
                "properties": {"a": _TEXT, "b": _TEXT},
            },
            id="branches that are references",
        ),
        pytest.param({"$ref": "#"}, _EMPTY, id="a reference to the root"),
        pytest.param(
            {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A", "properties": {"a": _TEXT}}}},
            {"$defs": {"A": {"$ref": "#/$defs/A", "properties": {"a": _TEXT}}}, "type": "object",
             "properties": {"a": _TEXT}},
            id="a reference to itself",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"const": 1}}},
            {"type": "object", "properties": {"a": {"enum": [1]}}},
            id="a constant",
        ),
        pytest.param(
            {"properties": {"a": _TEXT, "b": _TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
            id="one of two arguments",
        ),
        pytest.param(
            {"anyOf": [{"properties": {"a": _TEXT}, "required": ["a"]}, {"properties": {"b": _TEXT}}]},
            {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}},
            id="a union at the root",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": _TEXT}, "required": ["a"]}, {"properties": {"b": _TEXT}}]},
            {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}, "required": ["a"]},
            id="a sum at the root",
        ),
        pytest.param(
            {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"a": _TEXT}, "required": ["a"]}}},
            {
                "$defs": {"A": {"type": "object", "properties": {"a": _TEXT}, "required": ["a"]}},
                "type": "object",
                "properties": {"a": _TEXT},
                "required": ["a"],
            },
            id="a reference at the root",
        ),
        pytest.param({"$ref": "#/$defs/gone"}, _EMPTY, id="a reference to nothing"),
        pytest.param(
            {"type": "object", "properties": {"a": "no schema"}}, {"type": "object", "properties": {"a": {}}},
            id="a property that is no schema",
        ),
    ],
)  # fmt: skip
def test_root_is_an_object_with_properties(schema, wanted):
    assert normalise_root(schema) == wanted


def test_schema_that_is_nested_too_deeply_accepts_every_value_there():
    schema = {"type": "string"}
    for _ in range(900):
        schema = {"type": "object", "properties": {"a": schema}}
    text = json.dumps(normalise_root(schema))
    assert text.count("properties") < 100
    assert text.endswith('{"a": {}' + "}" * (text.count("{") - 1))


_LEAVES = st.sampled_from(
    [
        _TEXT,
        {"type": "integer", "enum": [1, 2]},
        {"const": "x"},
        {"type": "array"},
        {"type": ["string", "null"]},
        {},
        True,
    ]
)
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda named: {"type": "object", "properties": named, "required": sorted(named)[:1]}
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"allOf": each}),
        inner.map(lambda each: {"type": "array", "items": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"type": "array", "prefixItems": each}),
    ),
    max_leaves=8,
)
_ROOTS = st.dictionaries(st.sampled_from("abc"), _SCHEMAS, max_size=3).map(
    lambda named: {"type": "object", "properties": named, "required": sorted(named)[:1]}
)
_VALUES = st.recursive(
    st.sampled_from(["x", 1, 2, None]),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    schema=_ROOTS,
    arguments=st.dictionaries(st.sampled_from("abc"), _VALUES),
)
def test_normalised_schema_accepts_all_that_the_schema_accepts(schema, arguments):
    if jsonschema.Draft202012Validator(schema).is_valid(arguments):
        assert jsonschema.Draft202012Validator(normalise_root(schema)).is_valid(arguments)
