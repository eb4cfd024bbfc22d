"""Each provider gets requests in a form that it was seen to accept, also with what another provider has answered."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from tests.support.agent.transcripts import RecordedProvider, RefusingProvider, load_transcripts

from fleetwright_agent.turn.pipeline.model.prompt_repair import clean_messages
from fleetwright_agent.turn.providers.factory import portable
from fleetwright_agent.turn.providers.failures import REFUSED, classify
from fleetwright_agent.turn.tool_call_ids import assign_unique_ids, assign_valid_names

pytestmark = [
    # The transcripts name the models with which they were recorded.
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
    # The stock client warns of blocks of tools that run at the provider.
    pytest.mark.filterwarnings("ignore:Received unexpected tool content block:UserWarning"),
]
_ALL = load_transcripts()
_REFUSALS = [each for each in _ALL if "refuses" in each.document]
_ANSWERS = [each for each in _ALL if "refuses" not in each.document and "failure" not in each.wanted]
_FIELDS = {"reasoning_effort": {"reasoning_effort": "high"}}
"""The fields that a request has only if the agent is configured so."""


_BY_VENDOR: Final = [
    list(found)
    for _, found in groupby(sorted(_REFUSALS, key=lambda each: each.provider), key=lambda each: each.provider)
]
"""The transcripts of refused requests by vendor and client."""


async def ask(provider: RefusingProvider, messages: Sequence[AnyMessage], tools: Sequence[Any], **fields: Any) -> str:
    """Return the text of the answer. A prompt that is refused is repaired once, as in a turn."""
    chat = provider.chat()
    model: Any = chat.bind_tools(tools, **fields) if tools else chat
    sent = portable(messages, chat.endpoint.provider)
    try:
        return str((await model.ainvoke(sent)).text)
    except Exception as error:
        failure = classify(error)
        if failure is None or failure.reason != REFUSED:
            raise
        return str((await model.ainvoke(clean_messages(sent))).text)


@pytest.mark.parametrize("transcript", [pytest.param(each, id=each.name) for each in _REFUSALS])
async def test_request_has_a_form_that_the_provider_accepts(transcript):
    rules = transcript.document["refuses"]
    provider = RefusingProvider([transcript])
    fields = {name: value for rule in rules for name, value in _FIELDS.get(rule["at"], {}).items()}
    chosen = {"tool_choice": "any"} if any(rule["at"] == "tool_choice" for rule in rules) else {}
    assert await ask(provider, transcript.conversation, transcript.tools, **fields, **chosen) == "Fine."


@pytest.mark.parametrize("transcript", [pytest.param(each, id=each.name) for each in _ANSWERS])
async def test_conversation_with_any_answer_can_be_sent_to_every_provider(transcript):
    chat = RecordedProvider(transcript).chat().heard(lambda _: None, lambda _: None)
    model: Any = chat.bind_tools(transcript.tools) if transcript.tools else chat
    asked = [HumanMessage("Hello.")]
    answer: AIMessage = await model.ainvoke(transcript.conversation)
    assign_unique_ids(answer, asked)
    assign_valid_names(answer)
    results = [ToolMessage("done", tool_call_id=str(call["id"])) for call in answer.tool_calls]
    told = [*asked, answer, *results]
    for refusals in _BY_VENDOR:
        # Google checks the signatures of calls only until the user writes again, which a rule cannot say.
        signs = refusals[0].document["client"] == "generate-content" and answer.tool_calls
        for conversation in [*([told] if results else []), *([] if signs else [[*told, HumanMessage("Go on.")]])]:
            provider = RefusingProvider(refusals)
            assert await ask(provider, conversation, transcript.tools) == "Fine.", refusals[0].vendor


@pytest.mark.parametrize(
    "transcript",
    [
        pytest.param(each, id=each.name)
        for each in _ALL
        if "refuses" not in each.document and each.wanted.get("failure", {}).get("reason", REFUSED) != REFUSED
    ],
)
async def test_other_failures_change_no_form(transcript):
    """A request that failed for another reason is sent once, in the usual form."""
    provider = RecordedProvider(transcript)
    chat = provider.chat(retries=0)
    model: Any = chat.bind_tools(transcript.tools) if transcript.tools else chat
    with pytest.raises(Exception):  # noqa: B017 - each client has exceptions of its own
        await model.ainvoke(transcript.conversation)
    assert provider.number == 1


async def test_concurrent_requests_learn_a_form_together():
    (transcript,) = [each for each in _REFUSALS if each.name == "mistral/unknown-fields-refused-with-a-list-of-details"]
    provider = RefusingProvider([transcript])
    chat: Any = provider.chat()
    answers = await asyncio.gather(*(chat.ainvoke(transcript.conversation) for _ in range(3)))
    assert [answer.text for answer in answers] == ["Fine."] * 3
    assert sum(bool(found) for found in provider.violations) <= 3
    await chat.ainvoke(transcript.conversation)
    assert provider.violations[-1] == [], "the form is known"
