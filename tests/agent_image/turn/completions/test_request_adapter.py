"""Requests take the form that a server's refusal asks for, once for each form, and keep it."""

import pytest

from fleetwright_agent.turn.providers.chat_completions.adaptation import RequestAdapter

_CALL = {"type": "function", "id": "call_0123456789abcdef", "function": {"name": "look_up", "arguments": "{}"}}
_BODY = {
    "model": "m",
    "max_completion_tokens": 9,
    "temperature": 0.5,
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "look_up", "description": "Look it up. " * 100}}],
    "messages": [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [_CALL], "reasoning_content": "Hm."},
        {"role": "tool", "content": "done", "tool_call_id": _CALL["id"]},
        {"role": "user", "content": "Go on."},
    ],
}


def adapt(refusal):
    """Return the request after one refusal."""
    adapter = RequestAdapter()
    assert adapter.learn_form(refusal, _BODY, sent=_BODY)
    assert adapter.learn_form(refusal, _BODY, sent=_BODY), "a concurrent call was refused too"
    assert not adapter.learn_form(refusal, _BODY, sent=adapter.adapt_request(_BODY)), "nothing is learned twice"
    return adapter.adapt_request(_BODY)


@pytest.mark.parametrize(
    ("refusal", "field"),
    [
        pytest.param("body.stream_options: Extra inputs are not permitted", "stream_options", id="FastAPI"),
        pytest.param(
            "Unsupported value: 'temperature' does not support 0.5 with this model.", "temperature", id="OpenAI"
        ),
        pytest.param("Unrecognized request argument supplied: stream_options", "stream_options", id="an older server"),
    ],
)
def test_field_that_the_server_does_not_know_is_left_out(refusal, field):
    assert adapt(refusal) == {name: value for name, value in _BODY.items() if name != field}


def test_limit_of_output_gets_its_older_name():
    changed = adapt("body.max_completion_tokens: Extra inputs are not permitted")
    assert changed["max_tokens"] == 9
    assert "max_completion_tokens" not in changed


def test_ids_of_calls_and_results_become_equal_short_ids():
    changed = adapt("Tool call id was call_0 but must be a-z, A-Z, 0-9, with a length of 9.")
    identity = changed["messages"][1]["tool_calls"][0]["id"]
    assert changed["messages"][2]["tool_call_id"] == identity
    assert len(identity) == 9
    assert identity.isalnum()


def test_choice_of_no_tool_stays_if_the_server_refuses_to_be_forced():
    adapter = RequestAdapter()
    forced, free = {**_BODY, "tool_choice": "required"}, {**_BODY, "tool_choice": "none"}
    assert adapter.learn_form("The tool_choice parameter does not support being set to required", forced, sent=forced)
    assert "tool_choice" not in adapter.adapt_request(forced)
    assert adapter.adapt_request(free)["tool_choice"] == "none"


def test_reasoning_is_left_out_or_added():
    dropped = adapt("property 'reasoning_content' is unsupported")
    assert "reasoning_content" not in dropped["messages"][1]
    adapter = RequestAdapter()
    bare = {**_BODY, "messages": dropped["messages"]}
    assert adapter.learn_form(
        "thinking is enabled but reasoning_content is missing in assistant tool call message", bare, sent=bare
    )
    assert adapter.adapt_request(bare)["messages"][1]["reasoning_content"] == " "
    assert adapter.adapt_request(_BODY)["messages"][1]["reasoning_content"] == "Hm."


def test_message_of_the_model_separates_a_result_from_the_user():
    changed = adapt("Unexpected role 'user' after role 'tool'")
    assert [message["role"] for message in changed["messages"]] == ["user", "assistant", "tool", "assistant", "user"]


def test_text_is_added_beside_a_call():
    assert adapt("messages.1.content: Input should be a valid string")["messages"][1]["content"] == ""


def test_descriptions_are_cut_at_the_stated_length():
    changed = adapt(
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024"
    )
    assert len(changed["tools"][0]["function"]["description"]) == 1024


def test_signature_that_google_documents_stands_in_for_one_of_another_model():
    changed = adapt("Function call is missing a thought_signature in functionCall parts.")
    (call,) = changed["messages"][1]["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "skip_thought_signature_validator"}}


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param("The model is not multimodal. Please remove image inputs.", id="another reason"),
        pytest.param("reasoning_effort is not supported", id="a field that the request does not have"),
        pytest.param("", id="no text"),
        pytest.param(
            "A message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
            id="a call without a result",
        ),
        pytest.param(
            "'max_tokens' or 'max_completion_tokens' is too large: 9. This model's maximum context length is 8 tokens",
            id="a limit that is too large",
        ),
        pytest.param("invalid content: none of the images can be read", id="pictures"),
        pytest.param('File "x.py", line 1, in call: content=None', id="a traceback"),
    ],
)
def test_other_refusals_change_nothing(refusal):
    adapter = RequestAdapter()
    assert not adapter.learn_form(refusal, _BODY, sent=_BODY)
    assert adapter.adapt_request(_BODY) == _BODY


def test_several_forms_are_combined():
    adapter = RequestAdapter()
    for refusal in ("max_completion_tokens is unknown", "stream_options is not supported"):
        assert adapter.learn_form(refusal, _BODY, sent=adapter.adapt_request(_BODY))
    changed = adapter.adapt_request(_BODY)
    assert "stream_options" not in changed
    assert changed["max_tokens"] == 9
