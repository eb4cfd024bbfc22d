"""Counts model calls and tool calls since the caller's message. Pure: the counts come from the stored messages."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.storage.sessions import CallRecord

STEPS_PER_CALL: Final = 2
"""Graph steps per model call: the call itself, and the tool calls that follow it."""


def this_turn(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """The messages after the caller's newest one."""
    asked = next((index for index in reversed(range(len(messages))) if isinstance(messages[index], HumanMessage)), -1)
    return messages[asked + 1 :]


def model_calls(messages: Sequence[AnyMessage]) -> int:
    return sum(isinstance(message, AIMessage) for message in this_turn(messages))


def tool_calls(messages: Sequence[AnyMessage]) -> int:
    """The number of tool calls that have ended, including refused ones."""
    return sum(isinstance(message, ToolMessage) for message in this_turn(messages))


def loaded_skills(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """The names of the skills that were loaded since the caller's message."""
    turn = this_turn(messages)
    answered = {
        message.tool_call_id for message in turn if isinstance(message, ToolMessage) and message.status != "error"
    }
    calls = (call for message in turn if isinstance(message, AIMessage) for call in message.tool_calls)
    loads = (call for call in calls if call["name"] == "load_skill" and call["id"] in answered)
    return frozenset(str(call["args"].get("name")) for call in loads)


def answers_tools(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the next model call processes tool results."""
    return bool(messages) and isinstance(messages[-1], ToolMessage)


@dataclass(frozen=True, slots=True)
class RepeatedCall:
    """A tool call that returned the same result `times` times in this turn.

    `before` is the number before the newest round of calls.
    """

    tool: str
    times: int
    before: int


def most_repeated(messages: Sequence[AnyMessage]) -> RepeatedCall | None:
    """Return the call of the newest round that was made most often in this turn with the same result."""
    turn = this_turn(messages)
    newest = next((index for index in reversed(range(len(turn))) if isinstance(turn[index], AIMessage)), 0)
    before, after = _made(turn[:newest]), _made(turn)
    grown = [(after[made], before[made], made[0]) for made in after if after[made] > before[made]]
    times, earlier, tool = max(grown, default=(0, 0, ""))
    return RepeatedCall(tool, times, earlier) if times else None


def _made(messages: Sequence[AnyMessage]) -> Counter[tuple[str, str, str]]:
    """Count calls by tool, arguments and result. Ids are not usable: some providers restart them in every message."""
    made: Counter[tuple[str, str, str]] = Counter()
    calls: dict[str, tuple[str, str]] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            calls = {
                call["id"] or "": (call["name"], json.dumps(call["args"], sort_keys=True))
                for call in message.tool_calls
            }
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            made[(*calls[message.tool_call_id], message.text)] += 1
    return made


def calls_made(messages: Sequence[AnyMessage]) -> list[CallRecord]:
    """The tool calls since the caller's message, in order."""
    found: list[CallRecord] = []
    calls: dict[str, str] = {}
    for message in this_turn(messages):
        if isinstance(message, AIMessage):
            calls = {call["id"] or "": json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            took = (message.artifact or {}).get("duration_ms")
            found.append(CallRecord(message.name or "", calls[message.tool_call_id], message.text, took))
    return found
