"""Each answer that a provider was seen to send becomes the right message, or the right failure."""

import pytest
from langchain_core.messages import AIMessage
from tests.support.agent.transcripts import RecordedProvider, Transcript, load_transcripts

from fleetwright_agent.turn.providers.failures import IncompleteAnswer, classify
from fleetwright_agent.turn.providers.finish_reason import FinishReason, end_of

pytestmark = [
    # The transcripts name the models with which they were recorded.
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
    # The stock client warns of blocks of tools that run at the provider.
    pytest.mark.filterwarnings("ignore:Received unexpected tool content block:UserWarning"),
]
_ANSWERS = [each for each in load_transcripts() if "refuses" not in each.document]
_ENDS = {
    FinishReason.OWN: "complete",
    FinishReason.UNSTATED: "complete",
    FinishReason.LIMIT: "limit",
    FinishReason.WINDOW: "limit",
    FinishReason.FILTER: "filtered",
}


async def call(transcript: Transcript) -> tuple[AIMessage, str, str]:
    """Return the message, the text that was streamed, and the reasoning."""
    said, thought = list[str](), list[str]()
    chat = RecordedProvider(transcript).chat().heard(said.append, thought.append)
    model = chat.bind_tools(transcript.tools) if transcript.tools else chat
    reply = await model.ainvoke(transcript.conversation)
    return reply, "".join(said), "".join(thought)


def describe_usage(message: AIMessage) -> dict[str, int]:
    used = message.usage_metadata
    if used is None:
        return {}
    details = {**used.get("input_token_details", {}), **used.get("output_token_details", {})}
    names = {"cache_read": "cache_read", "cache_write": "cache_creation", "reasoning": "reasoning"}
    counted = {name: details.get(theirs) or 0 for name, theirs in names.items()}
    return {"input": used["input_tokens"], "output": used["output_tokens"], **counted}


@pytest.mark.parametrize(
    "transcript", [pytest.param(each, id=each.name) for each in _ANSWERS if "failure" not in each.wanted]
)
async def test_recorded_answer_becomes_the_right_message(transcript):
    wanted = transcript.wanted
    message, said, thought = await call(transcript)
    assert message.text == wanted.get("text", "")
    # Text after the beginning of a call is not streamed.
    assert said == wanted.get("text", "") or (message.tool_calls and wanted.get("text", "").startswith(said))
    assert thought == wanted.get("reasoning", "")
    assert [{"name": call["name"], "arguments": call["args"]} for call in message.tool_calls] == wanted.get("calls", [])
    assert _ENDS[end_of(message.response_metadata)] == wanted["finish"]
    used = describe_usage(message)
    assert {name: used.get(name) for name in wanted.get("usage", {})} == wanted.get("usage", {})


@pytest.mark.parametrize(
    "transcript", [pytest.param(each, id=each.name) for each in _ANSWERS if "failure" in each.wanted]
)
async def test_recorded_failure_is_classified(transcript):
    wanted = transcript.wanted["failure"]
    with pytest.raises(Exception) as raised:
        await call(transcript)
    failure = classify(raised.value)
    assert failure is not None, repr(raised.value)
    found = {
        "reason": failure.reason,
        "transient": failure.transient,
        "overflow": failure.overflow,
        "window": failure.window,
        "retry_after": None if failure.retry_after is None else round(failure.retry_after, 3),
    }
    assert {name: found[name] for name in wanted} == dict(wanted)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param(
            "application/json", '{"type":"error","error":{"type":"overloaded_error"}}', id="an error as a body"
        ),
        pytest.param("text/event-stream", 'data: {"type":"message_start","message":null}\n\n', id="no message"),
        pytest.param(
            "text/event-stream",
            'event: message_start\ndata: {"type":"message_start","message":{"content":"Hi","usage":null}}\n\n',
            id="a message of another shape",
        ),
        pytest.param("text/event-stream", "", id="nothing"),
    ],
)
async def test_odd_answer_of_an_anthropic_server_is_an_error_of_the_provider(kind, body):
    sample = next(each for each in _ANSWERS if each.document["client"] == "messages")
    answer = {"status": 200, "headers": {"content-type": kind}, "body": body}
    with pytest.raises(IncompleteAnswer) as raised:
        await call(Transcript("odd", {**sample.document, "answer": answer}))
    failure = classify(raised.value)
    assert (failure.reason, failure.transient, failure.elsewhere) == ("model_error", True, True)
