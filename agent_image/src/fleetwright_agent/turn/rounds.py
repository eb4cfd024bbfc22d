"""What has happened since the caller's message, read from the conversation itself: so it holds over a restart. Pure."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

STEPS_PER_CALL: Final = 2
"""Of the loop, for each call of the model: the call itself, and the tools that it calls."""


def this_turn(messages: Sequence[AnyMessage]) -> Sequence[AnyMessage]:
    """What came after the newest message of the caller."""
    asked = next((index for index in reversed(range(len(messages))) if isinstance(messages[index], HumanMessage)), -1)
    return messages[asked + 1 :]


def model_calls(messages: Sequence[AnyMessage]) -> int:
    return sum(isinstance(message, AIMessage) for message in this_turn(messages))


def tool_calls(messages: Sequence[AnyMessage]) -> int:
    """Those that have ended, refused ones too."""
    return sum(isinstance(message, ToolMessage) for message in this_turn(messages))


def loaded_skills(messages: Sequence[AnyMessage]) -> frozenset[str]:
    """The skills that were read since the caller's message, by name."""
    turn = this_turn(messages)
    answered = {
        message.tool_call_id for message in turn if isinstance(message, ToolMessage) and message.status != "error"
    }
    calls = (call for message in turn if isinstance(message, AIMessage) for call in message.tool_calls)
    loads = (call for call in calls if call["name"] == "load_skill" and call["id"] in answered)
    return frozenset(str(call["args"].get("name")) for call in loads)


def answers_tools(messages: Sequence[AnyMessage]) -> bool:
    """Whether the model is asked what to make of the results of tools."""
    return bool(messages) and isinstance(messages[-1], ToolMessage)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A call that was made with one result so many times; so many of them before the newest round."""

    tool: str
    times: int
    before: int


def most_repeated(messages: Sequence[AnyMessage]) -> Repeat | None:
    """Of the calls of the newest round, the one that was made most often in this turn with the same result."""
    turn = this_turn(messages)
    newest = next((index for index in reversed(range(len(turn))) if isinstance(turn[index], AIMessage)), 0)
    before, after = _made(turn[:newest]), _made(turn)
    grown = [(after[made], before[made], made[0]) for made in after if after[made] > before[made]]
    times, earlier, tool = max(grown, default=(0, 0, ""))
    return Repeat(tool, times, earlier) if times else None


def _made(messages: Sequence[AnyMessage]) -> Counter[tuple[str, str, str]]:
    """Tool, arguments and result. A provider may number the calls of each message anew."""
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
