"""Records each tool call in the audit trail. If the trail is required, no call runs without its record."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fleetwright_a2a.extensions import labels_of, trace_of
from fleetwright_agent.audit.content import call_line
from fleetwright_agent.audit.trail import AuditFailed, AuditTrail
from fleetwright_agent.config.enforcement import AuditMode
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.tool_journal import StartedCall
from fleetwright_agent.telemetry.tracing import current_trace
from fleetwright_agent.tools.port import ToolError

_SHUT = "the audit trail of this agent cannot be written, and without it no tool may run; say so in your answer"


class ToolAudit:
    def __init__(self, audit_trail: AuditTrail, mode: AuditMode) -> None:
        self._audit_trail = audit_trail
        self._mode = mode

    async def begins(
        self, turn: TurnRequest, tool: str, arguments: Mapping[str, Any], *, bypassed: bool = False
    ) -> None:
        """Record the start of a call, if the audit trail is required.

        Args: `bypassed` is True if the call needs an approval from which its caller is exempt.

        Raises:
            ToolError: The call must not run.
        """
        if self._mode is not AuditMode.REQUIRED:
            return
        try:
            about = {**_who(turn, tool), **call_line(arguments, ""), **_bypass(turn, bypassed=bypassed)}
            await self._audit_trail.record("tool_call_begins", about)
        except AuditFailed as error:
            raise ToolError(_SHUT) from error

    async def unknown(self, turn: TurnRequest, calls: Sequence[StartedCall]) -> None:
        """Record calls that an earlier process had started but not finished. Their effects are unknown."""
        for call in calls:
            args = call_line(call.arguments, "")["args"]
            await self._end({**_who(turn, call.tool), "args": args, "success": False, "outcome": "unknown"})

    async def ended(
        self,
        turn: TurnRequest,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        text: str,
        outcome: str,
        seconds: float,
        bypassed: bool = False,
    ) -> None:
        ends = {"success": outcome == "ok", "outcome": outcome, "duration_ms": round(seconds * 1000)}
        bypass = _bypass(turn, bypassed=bypassed)
        await self._end({**_who(turn, tool), **call_line(arguments, text), **ends, **bypass})

    async def _end(self, about: Mapping[str, Any]) -> None:
        if self._mode is AuditMode.OFF:
            return
        # The failure is counted and logged elsewhere. The call has already run, so an error would not undo it.
        with suppress(AuditFailed):
            await self._audit_trail.record("tool_call", about)


def _bypass(turn: TurnRequest, *, bypassed: bool) -> dict[str, str]:
    return {"approval_bypassed_for": turn.owner} if bypassed else {}


def _who(turn: TurnRequest, tool: str) -> dict[str, str]:
    who = {"session_id": turn.context_id, "task_id": turn.task_id, "owner": turn.owner, "tool": tool}
    trace = (current_trace() or trace_of(turn.metadata)).get("traceId")
    return {
        **who,
        **({"trace_id": trace} if trace else {}),
        **({"sub_agent": turn.sub_agent} if turn.sub_agent else {}),
        **labels_of(turn.metadata),
    }
