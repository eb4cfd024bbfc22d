"""Runs one tool call: limit, schema, time, frames, counters. Whatever happens, the loop gets a result."""

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import jsonschema
import referencing
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from fleetwright_agent.config import Limits
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.frames import ToolEnd, ToolStart, TurnFailed

_log = logging.getLogger(__name__)

_PREVIEW = 800
_GRACE_CALLS = 10
# Knows no address: a schema comes from a server, and must not send this process anywhere.
_NO_SCHEMAS: referencing.Registry[Any] = referencing.Registry()


class ToolCalls:
    """An exception of a tool becomes a result with an error in words: raised, it would end its siblings."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self._metrics = metrics

    async def run_tool(self, request: ToolCallRequest, context: TurnContext) -> ToolMessage:
        call = request.tool_call
        call_id, name = call["id"] or "", call["name"]
        tool = context.tools.get(name)
        # A model may make up names; they must not become labels.
        label = name if tool is not None else "(unknown)"
        context.emit(ToolStart(call_id, name, json.dumps(call["args"])[:_PREVIEW]))
        started = time.perf_counter()
        try:
            text = await self._run(tool, call["args"], context, name)
            ok = True
        except ToolError as error:
            text, ok = f"Error: {error}", False
        self._metrics.tool_latency.labels(label).observe(time.perf_counter() - started)
        self._metrics.tool_calls.labels(label, "ok" if ok else "error").inc()
        context.emit(ToolEnd(call_id, name, ok, text[:_PREVIEW]))
        return ToolMessage(text, tool_call_id=call_id, name=name, status="success" if ok else "error")

    async def _run(self, tool: Tool | None, arguments: Mapping[str, Any], context: TurnContext, name: str) -> str:
        context.tool_calls += 1
        limit = self._limits.max_tool_calls
        if context.tool_calls > limit:
            if context.tool_calls > limit + _GRACE_CALLS:
                context.failure = TurnFailed(
                    "tool_call_limit", f"The agent went on calling tools after its limit of {limit} calls."
                )
            raise ToolError(f"the limit of {limit} tool calls is reached; answer with what you have")
        if tool is None:
            raise ToolError(f"there is no tool {name!r}; the tools are: {', '.join(sorted(context.tools)) or 'none'}")
        _validate(arguments, tool)
        try:
            return await tool.run(ToolCall(arguments, context.request, context.emit))
        except (ToolError, TurnFailed):
            raise
        except Exception:
            _log.exception("tool %s broke", name)
            raise ToolError("the tool broke; go on without it") from None


def _validate(arguments: Mapping[str, Any], tool: Tool) -> None:
    try:
        jsonschema.validate(dict(arguments), dict(tool.parameters), registry=_NO_SCHEMAS)
    except jsonschema.ValidationError as error:
        where = "/".join(str(part) for part in error.absolute_path) or "arguments"
        raise ToolError(f"{where}: {error.message}") from None
    except (jsonschema.SchemaError, referencing.exceptions.Unresolvable):
        # A server's own broken schema is its own to enforce.
        return
