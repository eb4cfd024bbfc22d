"""The fast path that parses common messages: its results equal those of the protobuf library."""

import pytest
from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest, SendMessageRequest, TaskPushNotificationConfig
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st

from fleetwright_a2a.dialects.protojson import from_json

_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.sampled_from(["ROLE_USER", "ROLE_NOBODY", "1", "\ud800", "YQ=="]),
)
_OF_MESSAGES = (
    "message",
    "messageId",
    "message_id",
    "role",
    "parts",
    "text",
    "raw",
    "url",
    "data",
    "metadata",
    "filename",
)
_OF_OTHERS = (
    "configuration",
    "historyLength",
    "returnImmediately",
    "acceptedOutputModes",
    "authentication",
    "id",
    "else",
)
_NAMES = st.sampled_from(_OF_MESSAGES + _OF_OTHERS)
_ANYTHING = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=4), max_leaves=8
)
_PART = st.dictionaries(st.sampled_from(["text", "url", "raw", "data", "mediaType"]), _LEAVES, max_size=2)
_MESSAGE = st.fixed_dictionaries(
    {"messageId": st.text(max_size=3) | _LEAVES, "parts": st.lists(_PART | _LEAVES, max_size=2)},
    optional={"role": _LEAVES, "metadata": _ANYTHING, "extensions": _ANYTHING, "message_id": _LEAVES},
)
_PARAMS = st.fixed_dictionaries({}, optional={"message": _MESSAGE | _LEAVES, "configuration": _ANYTHING})


def _outcome(read, params, model):
    try:
        return read(params, model).SerializeToString(deterministic=True)
    except Exception as error:
        return type(error), str(error)


def _by_library(params, model):
    return ParseDict(params, model(), ignore_unknown_fields=True)


@given(params=_PARAMS | st.dictionaries(_NAMES, _ANYTHING, max_size=4))
def test_from_json_agrees_with_the_library_on_any_input(params):
    for model in (SendMessageRequest, GetTaskRequest, ListTasksRequest, TaskPushNotificationConfig):
        assert _outcome(from_json, params, model) == _outcome(_by_library, params, model)


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"message": {"parts": [{"text": "a"}, {"url": "b"}]}, "configuration": {}}, id="what is common"),
        pytest.param({"message": {"parts": [{"text": "a", "url": "b"}]}}, id="two of which one may be given"),
        pytest.param({"message": {"messageId": "a", "message_id": "b"}}, id="the same under both of its names"),
        pytest.param({"message": {"metadata": {"fields": {"a": 1}}}}, id="free JSON that looks like its definition"),
        pytest.param({"message": {"parts": [{"data": {"structValue": 1}}]}}, id="a value that looks like one"),
        pytest.param({"configuration": {"historyLength": 2**31}}, id="a number that is too large"),
        pytest.param({"configuration": {"historyLength": True}}, id="a truth where a number belongs"),
        pytest.param({"message": {"role": 1}}, id="an enumeration by its number"),
        pytest.param({"message": {"later": {"a": 1}}}, id="a field of a later version"),
    ],
)
def test_from_json_agrees_with_the_library_on_ambiguous_input(params):
    assert _outcome(from_json, params, SendMessageRequest) == _outcome(_by_library, params, SendMessageRequest)
