"""Parsing of Agent, Skill and McpServer objects: names, defaults, violations, and that it never raises an error."""

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import count_examples

from fleetwright_api.spec.agent import AgentSpec, parse_agent
from fleetwright_api.spec.callers import AllowedCallersSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.fields import crd_fields, crd_name, words_of
from fleetwright_api.spec.mcp_server import McpServerSpec, parse_mcp_server
from fleetwright_api.spec.skill import SkillSpec, parse_skill

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=6,
)
KINDS = [
    pytest.param(parse_agent, AgentSpec, id="Agent"),
    pytest.param(parse_skill, SkillSpec, id="Skill"),
    pytest.param(parse_mcp_server, McpServerSpec, id="McpServer"),
]


def custom(spec: object, **parts: object) -> dict[str, Any]:
    return {"metadata": {"name": "poet", "namespace": "shop", "uid": "u", "generation": 3}, "spec": spec, **parts}


def agent(**spec: object) -> dict[str, Any]:
    return custom({"model": {"name": "m"}, **spec})


def test_parse_agent_reads_identity_and_names_of_the_crd():
    model = {"name": "m", "baseURL": "https://m.example/v1", "apiKeySecretRef": {"name": "key"}}
    view = parse_agent(agent(model=model, a2a={"push": {"allowedCIDRs": ["192.0.2.0/24"]}}))
    assert (view.namespace, view.name, view.uid, view.generation) == ("shop", "poet", "u", 3)
    assert view.problems == ()
    assert (view.spec.model.base_url, view.spec.model.api_key_secret_ref.key) == ("https://m.example/v1", "api-key")
    assert view.spec.a2a.push.allowed_cidrs == ("192.0.2.0/24",)


def test_parse_agent_applies_the_defaults_of_the_crd():
    spec = parse_agent(agent()).spec
    assert (spec.version, spec.network.policy, spec.memory.storage.retain, spec.suspend) == (
        "0.1.0",
        "Managed",
        True,
        False,
    )
    assert (spec.limits.max_tool_calls, spec.allowed_callers, spec.peers) == (None, None, ())


VIOLATIONS = [
    pytest.param({"executor": {}}, "Malformed", "spec.executor.name is missing; set it", id="missing"),
    pytest.param(
        {"model": "m"}, "Malformed", "spec.model must be an object and is a string; correct it", id="no object"
    ),
    pytest.param({"peers": {}}, "Malformed", "spec.peers must be a list and is an object; correct it", id="no list"),
    pytest.param({"peers": [{}]}, "Malformed", "spec.peers[0].name is missing; set it", id="missing in a list"),
    pytest.param(
        {"skills": [5]}, "Malformed", "spec.skills[0] must be an object and is an integer; correct it", id="item"
    ),
    pytest.param(
        {"drainSeconds": True},
        "Malformed",
        "spec.drainSeconds must be an integer and is a boolean; correct it",
        id="type",
    ),
    pytest.param(
        {"resources": {"limits": {"cpu": 0.5}}},
        "Malformed",
        "spec.resources.limits.cpu must be an integer or a string and is a number; correct it",
        id="quantity",
    ),
    pytest.param(
        {"skillSelector": {"matchLabels": {"a": 1}}},
        "Malformed",
        "spec.skillSelector.matchLabels['a'] must be a string and is an integer; correct it",
        id="label",
    ),
    pytest.param(
        {"compaction": {"mode": "Sometimes"}},
        "UnknownWord",
        "spec.compaction.mode has 'Sometimes'; use one of Enforce, Observe, Off",
        id="word",
    ),
    pytest.param(
        {"a2a": {"dialects": ["1.0", "2.0"]}},
        "UnknownWord",
        "spec.a2a.dialects has '2.0'; use one of 1.0, 0.3, 0.1",
        id="word in a list",
    ),
]


@pytest.mark.parametrize(("spec", "reason", "message"), VIOLATIONS)
def test_parse_agent_reports_an_error_with_its_field(spec, reason, message):
    (problem,) = parse_agent(agent(**spec)).problems
    assert (problem.reason, problem.message) == (reason, message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(custom([]), "spec must be an object and is a list; correct it", id="list"),
        pytest.param(custom(None), "spec is missing; set it to an object", id="null"),
    ],
)
def test_parse_agent_reports_an_unreadable_spec_once(body, message):
    view = parse_agent(body)
    assert [problem.message for problem in view.malformed] == [message]
    assert view.spec.model.name == ""


def test_parse_agent_keeps_the_other_fields_of_a_broken_spec():
    view = parse_agent(
        agent(peers=[{"name": "helper"}, 5], memory="much", description="Writes.", unknown=1, version=None)
    )
    assert [peer.name for peer in view.spec.peers] == ["helper"]
    assert (view.spec.description, view.spec.memory.storage.retain, view.spec.version) == ("Writes.", True, "0.1.0")


def test_parse_agent_keeps_an_unknown_enum_value():
    assert parse_agent(agent(network={"policy": "Half"})).spec.network.policy == "Half"


@pytest.mark.parametrize("broken", [5, [], {"agents": "all"}, {"agents": [5]}], ids=repr)
def test_broken_allowed_callers_allow_no_caller(broken):
    assert parse_agent(agent(allowedCallers=broken)).spec.allowed_callers == AllowedCallersSpec()


def test_parse_skill_reads_the_accepted_status():
    status = {"permissions": {"tools": ["tools/add"]}, "source": {"git": {"url": "https://g.example/x", "commit": "c"}}}
    view = parse_skill(custom({"source": {"configMap": {"name": "files"}}}, status=status))
    assert (view.spec.source.config_map.name, view.accepted_permissions.tools) == ("files", ("tools/add",))
    assert view.accepted_source.git.commit == "c"


def test_encode_omits_what_the_spec_does_not_set():
    limits = {"maxToolCalls": 3, "stallSeconds": 0}
    spec = {"limits": limits, "plugins": [{"name": "units", "config": {}}], "approvals": {"tools": []}}
    view = parse_agent(agent(**spec)).spec
    assert encode(view) == {"model": {"name": "m"}, **spec}


@pytest.mark.parametrize(("parse", "view"), KINDS)
def test_parsers_never_raise_for_any_spec(parse, view):
    @settings(max_examples=count_examples(150), deadline=None, database=None)
    @given(spec=JSON | broken(view))
    def check(spec: object) -> None:
        parsed = parse(custom(spec))
        assert conforms(parsed.spec, view)
        assert all(problem.message.startswith("spec") for problem in parsed.problems)
        assert parse(custom({**encode(parsed.spec)})).spec == parsed.spec or parsed.problems

    check()


def broken(hint: Any, words: tuple[str, ...] = ()) -> st.SearchStrategy[Any]:
    """Return a strategy for values of the type in which any part may be any other JSON value."""
    if _is_union(hint):
        return st.one_of(broken(kind, words) for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is tuple:
        return st.lists(broken(get_args(hint)[0], words), max_size=2) | JSON
    if is_dataclass(hint):
        known = get_type_hints(hint)
        parts = {crd_name(each): broken(known[each.name], words_of(each)) for each in crd_fields(hint)}
        return st.deferred(lambda: st.fixed_dictionaries({}, optional=parts)) | JSON
    if words:
        return st.sampled_from(words) | JSON
    return {str: st.text(max_size=5), int: st.integers(), bool: st.booleans()}.get(hint, st.just({"a": "b"})) | JSON


def conforms(value: object, hint: Any) -> bool:
    """Return whether a value of a view has its declared type."""
    if _is_union(hint):
        return any(conforms(value, kind) for kind in get_args(hint))
    if get_origin(hint) is tuple:
        return type(value) is tuple and all(conforms(item, get_args(hint)[0]) for item in value)
    if get_origin(hint) is Mapping:
        return type(value) is dict
    if is_dataclass(hint):
        known = get_type_hints(hint)
        return type(value) is hint and all(conforms(getattr(value, name), kind) for name, kind in known.items())
    return type(value) is hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)
