"""Runs one tool call with its limits, schema check, policy, approval, journal, audit, frames and metrics.

The loop receives a result, or an interrupt that pauses the turn.
"""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from fleetwright_agent.config.server import Limits
from fleetwright_agent.protocol.frames import Artifact, InterruptKind, ToolArtifact, ToolEnd, ToolStart, TurnFailed
from fleetwright_agent.security.argument_schemas import UndecidableSchema, validation_error
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall, ToolJournal
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.human.approval import offered_grants, read_reply
from fleetwright_agent.tools.port import Deny, Tool, ToolBlocked, ToolCall, ToolDeclined, ToolError
from fleetwright_agent.tools.typed_text import typed_arguments
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.tool.auditing import ToolAudit
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions, decided
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy
from fleetwright_agent.turn.pipeline.tool.output_stream import OutputStream
from fleetwright_agent.turn.pipeline.tool.skill_fence import SkillFence

_log = logging.getLogger(__name__)

PREVIEW: Final = 800
_GRACE_CALLS = 10


class ToolCalls:
    """Turns the exceptions of tools into error results, because a raised exception would cancel parallel calls."""

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        journal: ToolJournal,
        *,
        enforcement: EnforcementPolicy,
        decisions: CallDecisions,
        fence: SkillFence,
        auditor: ToolAudit,
    ) -> None:
        self._limits = limits
        self._metrics = metrics
        self._journal = journal
        self._enforcement = enforcement
        self._decisions = decisions
        self._fence = fence
        self._auditor = auditor

    async def run_tool(self, request: ToolCallRequest, context: TurnContext) -> ToolMessage:
        """Run a call. A resumed turn runs it from the start, so nothing before the interrupt may have side effects."""
        call = request.tool_call
        call_id, name = call["id"] or "", call["name"]
        key = f"{_asker(request)}/{call_id}"
        # The turn of a new message has no calls in the journal.
        before = None if context.fresh else await self._journal.get(context.thread, key)
        if before is not None and before.state is CallState.DONE:
            return _message(call_id, name, before.body["text"], ok=before.body["ok"])
        tool = context.tools.get(name)
        run = _PreparedCall(key, call_id, name, call["args"], tool)
        wrong = self._refusal(run, context, request.state["messages"])
        if wrong is None and tool is not None:
            try:
                run = await self._answered(run, tool, before, context)
            except ToolError as error:
                wrong = error
        return await self._run(run, wrong, context)

    async def edit_problem(
        self, tool: str, arguments: Mapping[str, Any], context: TurnContext, *, untyped: bool = False
    ) -> str | None:
        """Return why a call with these arguments may not run, or None if it may."""
        offered = context.tools.get(tool)
        if offered is not None and untyped:
            arguments = typed_arguments(arguments, offered.parameters)
        try:
            await self._check_edit(_PreparedCall("", "", tool, arguments, offered), context)
        except ToolError as error:
            return str(error)
        return None

    async def _check_edit(self, call: "_PreparedCall", context: TurnContext) -> None:
        """Check the arguments of a person as strictly as those of the model. Raises: ToolError."""
        if call.tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        wrong = self._enforcement.refusal(call.name, call.arguments) or _misfit(call.arguments, call.tool)
        if wrong is not None:
            raise wrong
        decision = await decided(call.tool, call.port(context))
        if isinstance(decision, Deny):
            raise ToolBlocked(decision.reason)

    async def _answered(
        self, call: "_PreparedCall", tool: Tool, before: JournalEntry | None, context: TurnContext
    ) -> "_PreparedCall":
        """Return the call with a person's reply, if it needs one, and with the arguments that the person has changed.

        A stored question stays valid even if the configuration has changed.

        Raises:
            ToolError: The call must not run.
            GraphInterrupt: The turn waits for the reply.
        """
        asked = await self._decisions.question(tool, call.port(context), context)
        waits = before is not None and before.state is CallState.WAITING
        if before is not None and waits:
            asked = before.body
        elif asked is not None:
            await self._journal.put(context.thread, call.key, CallState.WAITING, asked)
        if asked is None:
            return call
        try:
            reply = interrupt(asked)
        except GraphInterrupt:
            # The person may have given the grant with the reply to another call that waited for the same grant.
            if waits and await self._decisions.covers(asked, context):
                return call
            raise
        call = replace(call, reply=reply)
        return call if asked["kind"] != InterruptKind.APPROVAL else await self._approved(call, asked, context)

    async def _approved(self, call: "_PreparedCall", asked: Mapping[str, Any], context: TurnContext) -> "_PreparedCall":
        """Return the call as the person has approved it. Raises: ToolError: the call must not run."""
        answer = read_reply(call.reply, offered_grants(asked["payload"]))
        if not answer.approved:
            why = f"; the reason of the person: {answer.reason}" if answer.reason else ""
            raise ToolDeclined(f"{call.name} was not approved and has not run; do not try it again unasked{why}")
        arguments = answer.arguments
        if arguments is not None and answer.untyped and call.tool is not None:
            arguments = typed_arguments(arguments, call.tool.parameters)
        if arguments is None or arguments == call.arguments:
            return call
        edited = replace(call, arguments=arguments, edited=True)
        # The tools and the policy may have changed since the answer was accepted.
        await self._check_edit(edited, context)
        return edited

    async def _run(self, call: "_PreparedCall", wrong: ToolError | None, context: TurnContext) -> ToolMessage:
        # Models invent tool names, and an invented name must not become a metric label.
        label = call.name if call.tool is not None else "(unknown)"
        context.emit(ToolStart(call.identity, call.name, json.dumps(call.arguments)[:PREVIEW]))
        started = time.perf_counter()
        outcome = "ok"
        artifacts: tuple[Artifact, ...] = ()
        try:
            text, artifacts = await self._result(call, wrong, context)
        except ToolError as error:
            text, outcome = f"Error: {error}", error.outcome
        except (asyncio.CancelledError, Exception) as error:
            # The call may have taken effect before the error, so it is audited.
            await self._audited(call, context, started, outcome=_how(error))
            raise
        ok = outcome == "ok"
        # Audit before journaling: a call with a result in the journal does not run again and is not audited again.
        seconds = await self._audited(call, context, started, text=text, outcome=outcome)
        told = f"{_edit_note(call)}{text}"
        if call.once:
            context.hold(self._journal.done(context.thread, call.key, {"text": told, "ok": ok}))
        self._metrics.tool_latency.labels(label).observe(seconds)
        self._metrics.tool_calls.labels(label, outcome).inc()
        context.emit(ToolEnd(call.identity, call.name, ok, text[:PREVIEW], len(text)))
        for artifact in artifacts:
            context.emit(ToolArtifact(call.identity, call.name, artifact))
        return _message(call.identity, call.name, told, ok=ok, seconds=seconds)

    async def _audited(
        self, call: "_PreparedCall", context: TurnContext, started: float, *, outcome: str, text: str = ""
    ) -> float:
        """Write the audit record, and return the duration in seconds."""
        seconds = time.perf_counter() - started
        await self._auditor.ended(
            context.request, call.name, call.arguments, text=text, outcome=outcome, seconds=seconds
        )
        return seconds

    async def _result(
        self, call: "_PreparedCall", wrong: ToolError | None, context: TurnContext
    ) -> tuple[str, tuple[Artifact, ...]]:
        """Return the text for the model, and the artifacts for the caller."""
        if wrong is not None or call.tool is None:
            raise wrong or ToolError(f"there is no tool {call.name!r}")
        # Audit before the call counts against rate limits: a call that the audit trail blocks must not count.
        await self._auditor.begins(context.request, call.name, call.arguments)
        if blocked := await self._enforcement.admit(call.name):
            raise blocked
        if call.once:
            await self._journal.begin(context.thread, call.key, StartedCall(call.name, call.arguments))
        else:
            await self._journal.settled(context.thread)
        output = OutputStream(call.identity, call.name, context.emit)
        try:
            result = await call.tool.run(call.port(context, output.write))
        except (ToolError, TurnFailed):
            raise
        except Exception:
            _log.exception("tool %s failed", call.name)
            raise ToolError("the tool broke; go on without it") from None
        finally:
            output.close()
        return (result, ()) if isinstance(result, str) else (result.text, result.artifacts)

    def _refusal(self, call: "_PreparedCall", context: TurnContext, messages: Sequence[AnyMessage]) -> ToolError | None:
        context.tally.tool_calls += 1
        made, limit = context.tally.tool_calls, self._limits.max_tool_calls
        if made > limit:
            if made > limit + _GRACE_CALLS:
                context.failure = TurnFailed(
                    "tool_call_limit", f"The agent kept calling tools after its limit of {limit} calls."
                )
            return ToolError(f"the limit of {limit} tool calls is reached; answer with what you have")
        if blocked := self._enforcement.refusal(call.name, call.arguments):
            return blocked
        if call.tool is None:
            known = ", ".join(context.known_tools) or "none"
            return ToolError(f"there is no tool {call.name!r}; the tools are: {known}")
        if shut := self._fence.refusal(call.name, messages):
            return shut
        return _misfit(call.arguments, call.tool)


@dataclass(frozen=True, slots=True)
class _PreparedCall:
    key: str
    """The key in the journal."""
    identity: str
    """The id of the call in the conversation."""
    name: str
    arguments: Mapping[str, Any]
    tool: Tool | None
    reply: Any = None
    edited: bool = False
    """True if a person has changed the arguments."""

    def port(self, context: TurnContext, write: Callable[[str], None] = lambda _: None) -> ToolCall:
        """Return the call as the tool receives it. Args: `write` streams its output."""
        return ToolCall(self.arguments, context.request, context.emit, self.reply, self.key, self.identity, write)

    @property
    def once(self) -> bool:
        """True if the journal must record the call, because it must not run twice."""
        return self.tool is not None and not self.tool.repeatable


def _edit_note(call: _PreparedCall) -> str:
    """Return a sentence for the model, whose own message still has the arguments that it chose."""
    if not call.edited:
        return ""
    return f"[A person changed the arguments of this call to {json.dumps(call.arguments, ensure_ascii=False)}]\n"


def _asker(request: ToolCallRequest) -> str:
    """Return the id of the message that contains the call. Some providers restart call ids in every message."""
    messages = request.state["messages"]
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")


def _how(error: BaseException) -> str:
    """Return the outcome of a call that was cancelled, or whose exception ends the turn."""
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"


def _message(call_id: str, name: str, text: str, *, ok: bool, seconds: float | None = None) -> ToolMessage:
    took = None if seconds is None else {"duration_ms": round(seconds * 1000)}
    status = "success" if ok else "error"
    # LangChain does not send the `artifact` of a message to the model.
    return ToolMessage(text, tool_call_id=call_id, name=name, status=status, artifact=took)


def _misfit(arguments: Mapping[str, Any], tool: Tool) -> ToolError | None:
    """Return an error if the arguments are invalid. If they cannot be checked, they pass: the server validates them."""
    try:
        error = validation_error(arguments, tool.parameters, patterns=False)
    except UndecidableSchema:
        return None
    if error is None:
        return None
    where = "/".join(str(part) for part in error.absolute_path) or "arguments"
    return ToolError(f"{where}: {error.message}")
