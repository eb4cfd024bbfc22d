"""The pure functions of compaction: measuring, cutting and rendering. Histories come from fixed seeds."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.bench.compaction.properties import count, history
from tests.support.examples import count_examples

from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.compaction.measure import estimate, prompt_tokens
from fleetwright_agent.turn.compaction.pairs import is_torn, repair_pairs
from fleetwright_agent.turn.compaction.policy import choose_cut, due, room
from fleetwright_agent.turn.compaction.view import View, visible_messages


def _human(text, identity):
    return HumanMessage(text, id=identity)


async def test_compaction_always_shows_a_valid_history():
    """After any number of compactions the model sees a valid history with all rules and the current request."""
    assert not await count(count_examples(150))


@pytest.mark.parametrize("keep", [1, 3, 20])
def test_choose_cut_never_starts_the_tail_with_a_tool_result(keep):
    policy = Compaction.model_validate({"keep": {"messages": keep}})
    for seed in range(300):
        messages = history(seed)
        cut = choose_cut(messages, policy, room=4000)
        if cut is not None:
            assert 1 < cut < len(messages)
            assert not isinstance(messages[cut], ToolMessage)
        assert not is_torn(visible_messages(messages, View(cut=messages[cut - 1].id) if cut else None, ""))


def test_choose_cut_keeps_the_smaller_of_the_two_tail_sizes():
    messages = [_human("x" * 400, f"h{i}") for i in range(50)]
    by_count = choose_cut(messages, Compaction.model_validate({"keep": {"messages": 5}}), room=100_000)
    by_size = choose_cut(messages, Compaction.model_validate({"keep": {"contextFraction": "0.1"}}), room=5000)
    assert by_count is not None
    assert by_size is not None
    assert len(messages) - by_count == 5
    assert estimate(messages[by_size:]) <= 500


def test_choose_cut_keeps_a_message_larger_than_the_tail():
    messages = [_human("a", "h1"), AIMessage("b", id="a1"), _human("x" * 40_000, "h2")]
    cut = choose_cut(messages, Compaction(), room=1000)
    assert cut is not None
    assert messages[cut:] == messages[2:]


@pytest.mark.parametrize(
    ("policy", "tokens", "messages", "trigger"),
    [
        pytest.param({}, 79, 1, None, id="below every trigger nothing happens"),
        pytest.param({}, 80, 1, "fraction", id="the fraction of the room fires"),
        pytest.param({"trigger": {"tokens": 50}}, 50, 1, "tokens", id="the absolute cap fires first"),
        pytest.param({"trigger": {"messages": 9}}, 10, 9, "messages", id="the number of messages fires"),
        pytest.param({"trigger": {"contextFraction": "0.5"}}, 50, 1, "fraction", id="a smaller fraction fires earlier"),
    ],
)
def test_due_returns_the_first_trigger_that_is_reached(policy, tokens, messages, trigger):
    assert due(Compaction.model_validate(policy), tokens=tokens, messages=messages, room=100) == trigger


def test_room_is_the_window_minus_the_answer():
    model = Model.model_validate(
        {"name": "m", "baseUrl": "u", "contextWindow": 1000, "maxOutputTokens": 300, "timeoutSeconds": 1}
    )
    assert room(model) == 700


def test_prompt_tokens_uses_reported_usage_for_earlier_messages():
    reported = AIMessage("x", id="a1", usage_metadata={"input_tokens": 900, "output_tokens": 100, "total_tokens": 1000})
    messages = [_human("y" * 4000, "h1"), reported, _human("z" * 400, "h2")]
    assert prompt_tokens(messages, system="s", tools=[], trusted_from=None) == 1000 + 100 + 4
    assert prompt_tokens(messages, system="s", tools=[], trusted_from="h2") == 1124


def test_repair_pairs_answers_open_calls_and_drops_lost_results():
    call = {"name": "pay", "args": {}, "id": "c1", "type": "tool_call"}
    history = repair_pairs([AIMessage("", tool_calls=[call], id="a"), ToolMessage("x", tool_call_id="gone", id="t")])
    assert [type(message).__name__ for message in history] == ["AIMessage", "ToolMessage"]
    assert "Whether it took effect is unknown" in history[1].text


QUESTION, YES = AIMessage("All is ready. Shall I send it?", id="q"), _human("yes", "h2")
ASKED = [_human("pack it", "h1"), QUESTION, YES, AIMessage("sent", id="a2"), _human("thanks", "h3")]


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        pytest.param(View(cut="q"), ["q", "h2", "a2", "h3"], id="where the cut took it and left the answer"),
        pytest.param(View(cut="h1"), ["q", "h2", "a2", "h3"], id="and not twice where both are left"),
        pytest.param(View(cut="h2"), ["a2", "h3"], id="and not where the answer is gone as well"),
        pytest.param(
            View(cut="a2", request="h2", behind="a2"), ["q", "h2", "h3"], id="before a request that is shown again"
        ),
    ],
)
def test_visible_messages_show_a_question_before_its_answer(view, wanted):
    assert [message.id for message in visible_messages(ASKED, view, "")] == wanted


def test_visible_messages_restore_only_answered_questions():
    statement = [_human("pack it", "h1"), AIMessage("packed", id="a1"), _human("thanks", "h2")]
    assert [message.id for message in visible_messages(statement, View(cut="a1"), "")] == ["h2"]
    aloud = [_human("pack it", "h1"), AIMessage("Which one?", id="a1"), AIMessage("The red one.", id="a2")]
    assert [message.id for message in visible_messages(aloud, View(cut="a1"), "")] == ["a2"]
