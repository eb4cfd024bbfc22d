"""The typed views know every property of the CRDs' specs, and the CRDs know every field of the views."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import yaml

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.approval import ApprovalSpec
from fleetwright_api.spec.fields import crd_fields, crd_name, is_required, words_of
from fleetwright_api.spec.mcp_server import McpServerSpec
from fleetwright_api.spec.skill import PermissionsSpec, SkillSpec

CRDS = Path(__file__).parents[2] / "crds"
VIEWS = {"agent": AgentSpec, "skill": SkillSpec, "mcpserver": McpServerSpec, "approval": ApprovalSpec}
SCALARS = {str: "string", int: "integer", bool: "boolean"}
Schema = Mapping[str, Any]


def schema_of(crd: str, part: str = "spec") -> Schema:
    document = yaml.safe_load((CRDS / f"{crd}.yaml").read_text())
    (version,) = document["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]["properties"][part]
    return schema


@pytest.mark.parametrize("crd", VIEWS)
def test_typed_views_match_the_crd(crd):
    assert list(differences("spec", schema_of(crd), VIEWS[crd])) == []


def test_permissions_view_matches_the_status_schema():
    known = schema_of("skill", "status")["properties"]["permissions"]
    assert [found for found in differences("status", known, PermissionsSpec) if "optional in" not in found] == []


BROKEN = [
    pytest.param({"new": {"type": "string"}}, "spec.new: no view has it", id="a property without a field"),
    pytest.param(
        {"drainSeconds": None}, "spec.drainSeconds: the CRD does not have it", id="a field without a property"
    ),
    pytest.param({"drainSeconds": {"type": "string"}}, "spec.drainSeconds: string in the CRD", id="another type"),
    pytest.param(
        {"suspend": {"type": "boolean", "description": "false when unset", "default": True}},
        "spec.suspend: default True",
        id="another default",
    ),
    pytest.param(
        {"suspend": {"type": "boolean"}}, "spec.suspend: the description does not", id="an undocumented default"
    ),
    pytest.param({"image": {"type": "string", "enum": ["a"]}}, "spec.image: the words", id="an enumeration"),
    pytest.param({"limits": {"type": "object", "properties": {}}}, "spec.limits.", id="a nested field"),
    pytest.param({"podTemplate": {"type": "object", "properties": {}}}, "spec.podTemplate: ", id="a free object"),
]


@pytest.mark.parametrize(("changed", "says"), BROKEN)
def test_differences_reports_mismatch_of_crd_and_view(changed, says):
    known = schema_of("agent")
    properties = {name: schema for name, schema in {**known["properties"], **changed}.items() if schema is not None}
    found = list(differences("spec", {**known, "properties": properties}, AgentSpec))
    assert found
    assert all(each.startswith(says) for each in found)


def differences(path: str, schema: Schema, view: type) -> Iterator[str]:
    """Yield every difference between an object of the CRD and its view."""
    known = {crd_name(each): each for each in crd_fields(view)}
    hints = get_type_hints(view)
    properties = schema["properties"]
    yield from (f"{path}.{name}: no view has it" for name in properties.keys() - known.keys())
    yield from (f"{path}.{name}: the CRD does not have it" for name in known.keys() - properties.keys())
    for name in properties.keys() & known.keys():
        place, field = f"{path}.{name}", known[name]
        yield from _field(place, properties[name], field, required=name in schema.get("required", ()))
        yield from _type(place, properties[name], hints[field.name], words_of(field))


def _field(path: str, schema: Schema, field: Field[Any], *, required: bool) -> Iterator[str]:
    if is_required(field) != required:
        yield f"{path}: {'required' if required else 'optional'} in the CRD"
    default = None if field.default is MISSING else field.default
    if schema.get("default", default) != default:
        yield f"{path}: default {schema['default']} in the CRD"
    stated = [default] if isinstance(default, str | int) and not required else []
    if any(not _documents(schema.get("description", ""), each) for each in stated):
        yield f"{path}: the description does not state the default {default}"


def _documents(description: str, default: str | int) -> bool:
    """Return whether the description states the default. A switch without a statement is off, a text is empty."""
    text = str(default).lower() if isinstance(default, bool) else str(default)
    stated = re.search(rf"(^|[ `\"]){re.escape(text)}[`\"]? when unset|{re.escape(text)}, the default", description)
    return bool(stated) or (default in (False, "") and "when unset" not in description and bool(description))


def _type(path: str, schema: Schema, hint: Any, words: tuple[str, ...]) -> Iterator[str]:
    kinds = [kind for kind in get_args(hint) if kind is not NoneType] if _is_union(hint) else [hint]
    if schema.get("x-kubernetes-int-or-string"):
        if set(kinds) != {int, str}:
            yield f"{path}: an integer or a string in the CRD"
        return
    (kind,) = kinds
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and schema["type"] == "array":
        yield from _type(f"{path}[]", schema["items"], arguments[0], words)
    elif is_dataclass(kind) and schema["type"] == "object" and "properties" in schema:
        yield from differences(path, schema, kind)
    elif origin is Mapping and schema["type"] == "object":
        if (arguments[1] is str) != ("additionalProperties" in schema):
            yield f"{path}: texts and free values differ"
        if arguments[1] is Any and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f"{path}: the CRD lists the properties"
    elif SCALARS.get(kind) != schema["type"]:
        yield f"{path}: {schema['type']} in the CRD and {kind} in the view"
    elif tuple(schema.get("enum", ())) != words:
        yield f"{path}: the words {words} are {schema.get('enum')} in the CRD"


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)
