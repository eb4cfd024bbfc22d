"""Runs one tool call with its limits, schema check, policy, approval, journal, audit, frames and metrics.

The loop receives a result, or an interrupt that pauses the turn.
"""

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.errors import GraphInterrupt
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import interrupt

from fleetwright_agent.config.server import Limits
from fleetwright_agent.protocol.frames import Artifact, InterruptKind, ToolArtifact, ToolEnd, ToolStart, TurnFailed
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall, ToolJournal
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.human.approval import offered_grants, read_reply
from fleetwright_agent.tools.port import Ask, Decision, Deny, Tool, ToolBlocked, ToolDeclined, ToolError, ToolExpired
from fleetwright_agent.tools.typed_text import typed_arguments
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.tool.auditing import ToolAudit
from fleetwright_agent.turn.pipeline.tool.decisions import STATE, CallDecisions, decided
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy
from fleetwright_agent.turn.pipeline.tool.output_stream import OutputStream
from fleetwright_agent.turn.pipeline.tool.prepared_call import PreparedCall
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
        run = PreparedCall(key, call_id, name, call["args"], tool)
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
            await self._check_edit(PreparedCall("", "", tool, arguments, offered), context)
        except ToolError as error:
            return str(error)
        return None

    async def _check_edit(self, call: PreparedCall, context: TurnContext) -> Decision:
        """Check the arguments of a person as strictly as those of the model. Raises: ToolError."""
        if call.tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        blocked = self._enforcement.refusal(call.name, call.arguments) or self._decisions.refusal(call.tool, context)
        if (wrong := blocked or call.argument_error()) is not None:
            raise wrong
        decision = await decided(call.tool, call.port(context))
        if isinstance(decision, Deny):
            raise ToolBlocked(decision.reason)
        return decision

    async def _answered(
        self, call: PreparedCall, tool: Tool, before: JournalEntry | None, context: TurnContext
    ) -> PreparedCall:
        """Return the call with a person's reply, if it needs one, and with the arguments that the person has changed.

        A stored question stays valid even if the configuration has changed. If the state that it describes has
        changed, such as a file, the person is asked again.

        Raises:
            ToolError: The call must not run.
            GraphInterrupt: The turn waits for the reply.
        """
        waits = before is not None and before.state is CallState.WAITING
        permit = await self._decisions.permit(tool, call.port(context), context, is_waiting_for_approval=waits)
        asked = permit.question
        if before is not None and waits:
            asked = before.body
        elif asked is not None:
            await self._journal.put(context.thread, call.key, CallState.WAITING, asked)
        if asked is None:
            return replace(call, approved=permit.approved, state=permit.state, bypassed=permit.bypassed)
        following = asked if permit.question is None or _state(permit.question) == _state(asked) else permit.question
        try:
            # A reply answers the stored question, because the person has not seen the following one.
            reply = interrupt(following)
        except GraphInterrupt:
            # The person may have given the grant with the reply to another call that waited for the same grant.
            if waits and await self._decisions.covers(following, context):
                return replace(call, approved=following["payload"]["title"], state=_state(following))
            if following is not asked:
                await self._journal.put(context.thread, call.key, CallState.WAITING, following)
            raise
        call = replace(call, reply=reply)
        return call if asked["kind"] != InterruptKind.APPROVAL else await self._approved(call, asked, context)

    async def _approved(self, call: PreparedCall, asked: Mapping[str, Any], context: TurnContext) -> PreparedCall:
        """Return the call as the person has approved it. Raises: ToolError: the call must not run."""
        answer = read_reply(call.reply, offered_grants(asked["payload"]))
        if answer.expired:
            raise ToolExpired(f"{call.name} was not approved in time and has not run; do not try it again unasked")
        if not answer.approved:
            why = f"; the reason of the person: {answer.reason}" if answer.reason else ""
            raise ToolDeclined(f"{call.name} was not approved and has not run; do not try it again unasked{why}")
        arguments = answer.arguments
        if arguments is not None and answer.untyped and call.tool is not None:
            arguments = typed_arguments(arguments, call.tool.parameters)
        if arguments is None or arguments == call.arguments:
            return replace(call, approved=asked["payload"]["title"], state=_state(asked))
        edited = replace(call, arguments=arguments, edited=True)
        # The tools and the policy may have changed since the answer was accepted.
        decision = await self._check_edit(edited, context)
        if not isinstance(decision, Ask):
            return replace(edited, approved="")
        state = _state(asked) if decision.question == asked["payload"]["title"] else decision.state
        return replace(edited, approved=decision.question, state=state)

    async def _run(self, call: PreparedCall, wrong: ToolError | None, context: TurnContext) -> ToolMessage:
        # Models invent tool names, and an invented name must not become a metric label.
        label = call.name if call.tool is not None else "(unknown)"
        resumes = await self._has_asked(call, context)
        if not resumes:
            context.emit(ToolStart(call.identity, call.name, json.dumps(call.arguments)[:PREVIEW]))
        started = time.perf_counter()
        outcome = "ok"
        artifacts: tuple[Artifact, ...] = ()
        try:
            text, artifacts = await self._result(call, wrong, context, resumes=resumes)
        except GraphInterrupt:
            await self._journal.put(context.thread, _asks(call), CallState.WAITING)
            raise
        except ToolError as error:
            text, outcome = f"Error: {error}", error.outcome
        except (asyncio.CancelledError, Exception) as error:
            # The call may have taken effect before the error, so it is audited.
            seconds = await self._audited(call, context, started, outcome=_how(error))
            _log_call(label, context, outcome=_how(error), seconds=seconds)
            raise
        ok = outcome == "ok"
        # Audit before journaling: a call with a result in the journal does not run again and is not audited again.
        seconds = await self._audited(call, context, started, text=text, outcome=outcome)
        told = f"{_edit_note(call)}{text}"
        if call.once:
            context.hold(self._journal.done(context.thread, call.key, {"text": told, "ok": ok}))
        self._metrics.tool_latency.labels(label).observe(seconds)
        self._metrics.tool_calls.labels(label, outcome).inc()
        _log_call(label, context, outcome=outcome, seconds=seconds)
        context.emit(ToolEnd(call.identity, call.name, ok, text[:PREVIEW], len(text)))
        for artifact in artifacts:
            context.emit(ToolArtifact(call.identity, call.name, artifact))
        return _message(call.identity, call.name, told, ok=ok, seconds=seconds)

    async def _audited(
        self, call: PreparedCall, context: TurnContext, started: float, *, outcome: str, text: str = ""
    ) -> float:
        """Write the audit record, and return the duration in seconds."""
        seconds = time.perf_counter() - started
        await self._auditor.ended(
            context.request,
            call.name,
            call.arguments,
            text=text,
            outcome=outcome,
            seconds=seconds,
            bypassed=call.bypassed,
        )
        return seconds

    async def _result(
        self, call: PreparedCall, wrong: ToolError | None, context: TurnContext, *, resumes: bool
    ) -> tuple[str, tuple[Artifact, ...]]:
        """Return the text for the model, and the artifacts for the caller."""
        if wrong is not None or call.tool is None:
            raise wrong or ToolError(f"there is no tool {call.name!r}")
        # Audit before the call counts against rate limits: a call that the audit trail blocks must not count.
        if not resumes:
            await self._auditor.begins(context.request, call.name, call.arguments, bypassed=call.bypassed)
            if blocked := await self._enforcement.admit(call.name):
                raise blocked
        if call.once:
            await self._journal.begin(context.thread, call.key, StartedCall(call.name, call.arguments))
        else:
            await self._journal.settled(context.thread)
        output = OutputStream(call.identity, call.name, context.emit)
        try:
            result = await call.tool.run(call.port(context, output.write))
        except (ToolError, TurnFailed, GraphInterrupt):
            raise
        except Exception:
            _log.exception("tool %s failed", call.name)
            raise ToolError("the tool broke; go on without it") from None
        finally:
            output.close()
        return (result, ()) if isinstance(result, str) else (result.text, result.artifacts)

    async def _has_asked(self, call: PreparedCall, context: TurnContext) -> bool:
        """Return True if the call started before, and a sub-agent of the call has asked a person."""
        if context.fresh or call.once or call.tool is None:
            return False
        return await self._journal.get(context.thread, _asks(call)) is not None

    def _refusal(self, call: PreparedCall, context: TurnContext, messages: Sequence[AnyMessage]) -> ToolError | None:
        context.usage.tool_calls += 1
        made, limit = context.usage.tool_calls, self._limits.max_tool_calls
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
        wrong = self._decisions.refusal(call.tool, context) or self._fence.refusal(call.name, messages)
        return wrong or call.argument_error()


def _state(asked: Mapping[str, Any]) -> str:
    return str(asked.get(STATE, ""))


def _asks(call: PreparedCall) -> str:
    """Return the journal key of the question of a sub-agent of the call."""
    return f"{call.key}/asks"


def _edit_note(call: PreparedCall) -> str:
    """Return a sentence for the model, whose own message still has the arguments that it chose."""
    if not call.edited:
        return ""
    return f"[A person changed the arguments of this call to {json.dumps(call.arguments, ensure_ascii=False)}]\n"


def _asker(request: ToolCallRequest) -> str:
    """Return the id of the message that contains the call. Some providers restart call ids in every message."""
    messages = request.state["messages"]
    return next((str(message.id) for message in reversed(messages) if isinstance(message, AIMessage)), "")


def _log_call(name: str, context: TurnContext, *, outcome: str, seconds: float) -> None:
    """Log that a call has ended. Arguments and results may contain data of the caller, so the line has neither."""
    about = {"task": context.request.task_id, "context": context.request.context_id, "tool": name}
    _log.info("tool call ended", extra={**about, "outcome": outcome, "durationMs": round(seconds * 1000)})


def _how(error: BaseException) -> str:
    """Return the outcome of a call that was cancelled, or whose exception ends the turn."""
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "failed"


def _message(call_id: str, name: str, text: str, *, ok: bool, seconds: float | None = None) -> ToolMessage:
    took = None if seconds is None else {"duration_ms": round(seconds * 1000)}
    status = "success" if ok else "error"
    # LangChain does not send the `artifact` of a message to the model.
    return ToolMessage(text, tool_call_id=call_id, name=name, status=status, artifact=took)
