"""Decides whether a tool call runs, needs a person's approval or answer, or is refused.

Both the tool and the agent's policy decide about a call. The stricter of the two decisions applies.
"""

import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.approvals import Approver
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.approval_policy import may_ask, may_wait_for_approval
from fleetwright_agent.tools.human.approval import ask_request, offered_grants
from fleetwright_agent.tools.port import (
    Allow,
    Ask,
    Decision,
    Deny,
    Tool,
    ToolBlocked,
    ToolCall,
    ToolDeclined,
    ToolError,
)
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.grants import Grants

STATE: Final = "state"
"""The key of a stored question for the state that it describes. No client sees it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallPermit:
    """Whether a call may run at once."""

    question: dict[str, Any] | None = None
    """The question that a person must answer before the call runs."""
    approved: str | None = None
    """The question that an earlier grant answers."""
    state: str = ""
    """The state that this question describes."""
    bypassed: bool = False
    """True if the call needs an approval, and the configuration exempts its caller."""


class CallDecisions:
    def __init__(self, config: AgentConfig, grants: Grants) -> None:
        self._config = config
        self._grants = grants
        self._agent = f"{config.namespace}/{config.name}"
        self._may_ask = may_ask(config)
        self._reviewed = config.approvals.by is Approver.REVIEWERS

    def refusal(self, tool: Tool, context: TurnContext) -> ToolBlocked | None:
        """Return the error if the role of the caller does not allow the tool."""
        return None if tool.action is None else self._missing(tool.action, tool, context)

    def _missing(self, action: CallerAction, tool: Tool, context: TurnContext) -> ToolBlocked | None:
        if action in self._config.actions_of(context.request.owner):
            return None
        return ToolBlocked(
            f"{tool.name} needs the action {action}, which the role of this caller does not allow; tell the caller so"
        )

    async def permit(
        self, tool: Tool, call: ToolCall, context: TurnContext, *, is_waiting_for_approval: bool = False
    ) -> CallPermit:
        """Return whether the call may run at once.

        Args:
            is_waiting_for_approval: True if the call already waits. A reviewer may then decide, whatever the role of
                the caller allows.

        Raises:
            ToolError: The call must not run.
        """
        decision = await decided(tool, call)
        if isinstance(decision, Deny):
            raise ToolBlocked(decision.reason)
        if isinstance(decision, Allow):
            return CallPermit()
        if decision.kind is InterruptKind.APPROVAL:
            if not is_waiting_for_approval and (blocked := self._missing(CallerAction.REQUEST_APPROVAL, tool, context)):
                raise blocked
            if await self._grants.covers(context.request, tool.name, [grant.key for grant in decision.grants]):
                return CallPermit(approved=decision.question, state=decision.state)
            if not is_waiting_for_approval and self._config.approvals.bypasses(context.request.owner):
                # The tool receives the call as approved, also if the tool itself has asked.
                return CallPermit(approved=decision.question, state=decision.state, bypassed=True)
            self._check_approvable(tool, context)
            if self._reviewed or not is_client(context.request.owner):
                decision = replace(decision, grants=())  # Only a client may give grants, with its own answer.
        return CallPermit(self._body(tool, decision, call))

    async def covers(self, asked: dict[str, Any], context: TurnContext) -> bool:
        """Return True if a person has meanwhile given a grant that covers the call."""
        return await self._grants.covers(context.request, asked["tool"], offered_grants(asked["payload"]))

    def _check_approvable(self, tool: Tool, context: TurnContext) -> None:
        needs = f"{tool.name} needs the approval of a person"
        if not may_wait_for_approval(self._config, context.request.owner):
            raise ToolDeclined(f"{needs}, and this request comes from an agent; say so in your answer")
        if not self._may_ask:
            raise ToolDeclined(f"{needs}, and this agent cannot ask a person; say so in your answer")

    def _body(self, tool: Tool, ask: Ask, call: ToolCall) -> dict[str, Any]:
        request = ask_request(tool.name, ask, call.arguments, agent=self._agent, reviewed=self._reviewed)
        body = {"kind": request.kind.value, "prompt": request.prompt, "tool": request.tool}
        arguments = {} if request.arguments is None else {"arguments": dict(request.arguments), "callId": call.identity}
        state = {STATE: ask.state} if ask.state else {}
        return {**body, "payload": dict(request.payload), **arguments, **state}


async def decided(tool: Tool, call: ToolCall) -> Decision:
    """Return the decision of the tool. Raises: ToolError."""
    try:
        return await tool.decide(call)
    except ToolError:
        raise
    except Exception:
        _log.exception("tool %s could not decide about a call", tool.name)
        raise ToolError("the tool broke; go on without it") from None
