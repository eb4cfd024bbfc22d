"""The messages and frames with which results of background tasks enter a conversation."""

from fleetwright_agent.protocol.frames import PeerCost, ToolEnd, ToolStart
from fleetwright_agent.storage.open_questions import DelegatedTask
from fleetwright_agent.tools.fleet.background_result import BackgroundResult
from fleetwright_agent.turn.background_results import delivered, result_frames, result_messages, undelivered

ONE = BackgroundResult(DelegatedTask("a", "c", "n/cook", "one"), "eggs", ok=True, frames=(PeerCost("cook", 1),))
TWO = BackgroundResult(DelegatedTask("a", "c", "n/cook", "two"), "no eggs", ok=False)


def test_result_messages_pair_each_result_with_a_call():
    call, first, second = result_messages([ONE, TWO])
    assert [each["args"] for each in call.tool_calls] == [
        {"agent": "n/cook", "task_id": "one"},
        {"agent": "n/cook", "task_id": "two"},
    ]
    assert [each["id"] for each in call.tool_calls] == [first.tool_call_id, second.tool_call_id]
    assert (first.status, second.status) == ("success", "error")
    assert first.text == "The result of task one, which was begun earlier: eggs"


def test_result_in_the_conversation_is_not_added_again():
    assert undelivered([ONE, TWO], result_messages([ONE])) == [TWO]
    assert undelivered([ONE, TWO], []) == [ONE, TWO]
    assert result_messages([]) == []


def test_delivered_tasks_have_a_result_in_the_conversation():
    assert delivered([ONE.task, TWO.task], result_messages([ONE])) == [ONE.task]
    assert delivered([ONE.task], []) == []


def test_result_frames_tell_call_result_and_cost():
    frames = result_frames([ONE])
    assert [type(frame) for frame in frames] == [PeerCost, ToolStart, ToolEnd]
    assert (frames[2].ok, frames[2].result, frames[2].characters) == (True, "eggs", 4)
