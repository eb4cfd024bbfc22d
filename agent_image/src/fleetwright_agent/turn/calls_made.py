"""The calls of tools that an answer came from, read from the conversation itself: so it holds over a restart. Pure."""

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from fleetwright_agent.storage.call_record import Made
from fleetwright_agent.turn.rounds import this_turn


def made(messages: Sequence[AnyMessage]) -> list[Made]:
    """Since the caller's message, in their order."""
    found: list[Made] = []
    calls: dict[str, str] = {}
    for message in this_turn(messages):
        if isinstance(message, AIMessage):
            calls = {call["id"] or "": json.dumps(call["args"], ensure_ascii=False) for call in message.tool_calls}
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            took = (message.artifact or {}).get("duration_ms")
            found.append(Made(message.name or "", calls[message.tool_call_id], message.text, took))
    return found
