"""Normalises the declarations of tools, so that no provider refuses a request because of one of them. Pure.

A provider that refuses one declaration refuses the whole request. MCP servers declare schemas that are valid JSON
Schema, but that some provider does not accept: without `properties`, with a list of unknown items, or with a union at
the root. The agent checks the arguments of each call against the schema of the server, not against the declaration.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.utils.function_calling import convert_to_openai_tool

_MOST_DEPTH: Final = 32
"""A schema that is nested deeper accepts every value there."""
_UNIONS: Final = ("allOf", "anyOf", "oneOf")
_NOT_AT_ROOT: Final = frozenset({*_UNIONS, "not", "enum", "const", "if", "then", "else", "$ref"})
"""Keywords that OpenAI, Anthropic and xAI refuse at the root of a schema."""
_CLOSING: Final = ("additionalProperties", "unevaluatedProperties")
"""Keywords at the root that would refuse the properties of branches."""
_MOST_BRANCHES: Final = 100
_BY_NAME: Final = ("properties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose value holds schemas by name."""
_SCHEMAS: Final = ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "unevaluatedItems")
"""Keywords whose value is a schema."""


def declare_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the declarations of tools in the format of chat completions. Other formats are made from it."""
    return [_declare_tool(convert_to_openai_tool(tool)) for tool in tools]


def _declare_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return {**tool, "function": {**function, "parameters": normalise_root(function.get("parameters"))}}


def normalise_root(schema: Any) -> dict[str, Any]:
    """Return the schema of a tool's arguments as a plain object with properties.

    A union at the root cannot be declared. The properties of its branches are added to those of the root, as a hint for
    the model. Only those of `allOf` are required.
    """
    root = _as_mapping(schema)
    always, options = _collect_branches(root, root, _MOST_DEPTH)
    properties: dict[str, Any] = {}
    for branch in always:
        for name, value in _as_mapping(branch.get("properties")).items():
            properties.setdefault(name, _normalise_schema(value, _MOST_DEPTH))
    properties = {**properties, **_join_options(options, properties)}
    required = [name for branch in always for name in _as_list(branch.get("required")) if name in properties]
    dropped = {"type", "properties", "required", *_NOT_AT_ROOT, *(_CLOSING if len(always) + len(options) > 1 else ())}
    rest = {name: _normalise_keyword(name, value, _MOST_DEPTH) for name, value in root.items() if name not in dropped}
    found = {**rest, "type": "object", "properties": properties}
    # The fourth draft does not allow an empty list of required names.
    return {**found, "required": list(dict.fromkeys(required))} if required else found


def _collect_branches(
    schema: Mapping[str, Any], root: Mapping[str, Any], levels: int
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the schemas that always apply, and those of which one applies. Both are without unions and references."""
    always, options = [schema], list[Mapping[str, Any]]()
    if levels <= 0:
        return always, options
    referred = _resolve_reference(schema.get("$ref"), root)
    for part in (*([referred] if referred is not None else []), *_list_mappings(schema.get("allOf"))):
        more, others = _collect_branches(part, root, levels - 1)
        always += more
        options += others
    for part in (*_list_mappings(schema.get("anyOf")), *_list_mappings(schema.get("oneOf"))):
        more, others = _collect_branches(part, root, levels - 1)
        options += [*more, *others]
    return always[:_MOST_BRANCHES], options[:_MOST_BRANCHES]


def _join_options(options: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of the branches of a union. One that differs between branches is a union itself."""
    found: dict[str, list[Any]] = {}
    for branch in options:
        for name, value in _as_mapping(branch.get("properties")).items():
            schema = _normalise_schema(value, _MOST_DEPTH)
            if name not in known and schema not in found.setdefault(name, []):
                found[name].append(schema)
    return {name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in found.items()}


def _resolve_reference(reference: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema to which a reference such as `#/$defs/Arguments` leads; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = _as_mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found if isinstance(found, Mapping) else None


def _normalise_schema(schema: Any, levels: int) -> Any:
    """Return a schema below the root. Lists say what their items are, and constants are enumerations.

    A type beside a union is in the branches of the union.
    """
    if not isinstance(schema, Mapping) or levels <= 0:
        return schema if isinstance(schema, bool) else {}
    found = {name: _normalise_keyword(name, value, levels - 1) for name, value in schema.items()}
    places = schema.get("items")
    if isinstance(places, list):
        # Until the seventh draft, a list here described the items by their place.
        is_closed = schema.get("additionalItems") is False and places
        found["items"] = {"anyOf": [_normalise_schema(each, levels - 1) for each in places]} if is_closed else {}
    if "const" in found:
        found.setdefault("enum", [found.pop("const")])
    found = _add_items(found)
    if found.get("type") is not None and any(found.get(name) for name in ("anyOf", "oneOf")):
        return _move_type(found)
    return found


def _add_items(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a list with a schema of its items."""
    kinds = schema.get("type")
    is_list = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    is_known = isinstance(schema.get("items"), Mapping | bool) or "prefixItems" in schema
    return schema if is_known or not is_list else {**schema, "items": {}}


def _move_type(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with a type and a union whose type is in the branches, where Moonshot requires it."""
    kind = schema["type"]
    branches = {
        name: [_add_items({"type": kind, **each}) if isinstance(each, Mapping) else each for each in schema[name]]
        for name in ("anyOf", "oneOf")
        if schema.get(name)
    }
    return {**{name: value for name, value in schema.items() if name != "type"}, **branches}


def _normalise_keyword(name: str, value: Any, levels: int) -> Any:
    if name in _BY_NAME:
        return {key: _normalise_schema(each, levels) for key, each in _as_mapping(value).items()}
    if name in {*_UNIONS, "prefixItems"}:
        return [_normalise_schema(each, levels) for each in _as_list(value)]
    return _normalise_schema(value, levels) if name in {*_SCHEMAS, "items"} else value


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list_mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in _as_list(value) if isinstance(each, Mapping))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
