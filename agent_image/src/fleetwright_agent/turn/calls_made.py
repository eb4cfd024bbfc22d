"""The tool calls that led to an answer. Pure: it reads only the stored messages, so it works after a restart."""

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from fleetwright_agent.storage.call_record import CallRecord
from fleetwright_agent.turn.rounds import this_turn


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
