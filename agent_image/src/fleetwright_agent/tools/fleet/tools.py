"""The tools `list_agents` and `ask_agent`.

Which agents there are is known only at run time, so a new colleague needs no new revision. The description of
`ask_agent` lists the colleagues of the moment.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import httpx

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.open_questions import DelegatedTasks, OpenQuestions
from fleetwright_agent.storage.tasks.task_log import TaskDelegations
from fleetwright_agent.tools.fleet.background_tasks import BackgroundTasks
from fleetwright_agent.tools.fleet.colleagues import MOST, Colleague, Colleagues, GatewayUnavailable
from fleetwright_agent.tools.peers.call_records import CallRecords
from fleetwright_agent.tools.peers.conversation import PeerConversations, name_of
from fleetwright_agent.tools.peers.gateway_calls import GatewayCalls, read_gateway_token
from fleetwright_agent.tools.peers.questions import undelivered_in
from fleetwright_agent.tools.peers.retries import Sleep
from fleetwright_agent.tools.peers.tool import MESSAGE, TASK_ID
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError

_NAME: Final = {"type": "string", "description": "The agent, as list_agents names it, such as writer or team/writer"}
_WAIT: Final = {
    "type": "boolean",
    "description": "False to go on at once; the result then comes with a later message of this conversation",
    "default": True,
}
_LISTED: Final = 20
"""The most colleagues in the description of the tool. `list_agents` returns all."""


class FleetTools:
    name = "fleet"

    def __init__(
        self,
        me: str,
        gateway: str,
        layout: Layout,
        client: httpx.AsyncClient,
        kept: OpenQuestions,
        delegated: DelegatedTasks,
        delegations: TaskDelegations,
        *,
        records: CallRecords,
        now: Callable[[], float],
        declared: Collection[str] = (),
        outlived: bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Args:
        me: This agent, as `<namespace>/<name>`.
        gateway: The URL of the gateway.
        layout: The paths of the mounted files.
        client: Connects to the gateway. The caller closes it.
        kept: The store of the questions of other agents.
        delegated: The store of the tasks that no call waits for.
        delegations: The delegations of the tasks of this agent.
        records: Records the calls.
        now: Returns seconds since the epoch.
        declared: The names of the declared peers, whose open questions another provider keeps.
        outlived: True if the store survives a restart.
        sleep: Waits before a request is repeated.
        """
        self._me = me
        self._calls = GatewayCalls(layout, delegations, now=now)
        self._declared = frozenset(declared)
        self._colleagues = Colleagues(me, gateway, client, read_token=partial(read_gateway_token, layout))
        self._conversations = PeerConversations(
            me,
            client,
            kept,
            records,
            find=self._colleagues.peer,
            authorize=self._authorize,
            keeps=self._keeps,
            is_undelivered=undelivered_in(delegated),
            outlived=outlived,
            sleep=sleep,
        )
        self.background = BackgroundTasks(self._conversations, delegated, find=self._colleagues.peer)

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:
        try:
            found = await self._colleagues.list()
        except GatewayUnavailable:
            found = ()
            context.unreachable["gateway"] = "the gateway does not answer"
        asking = {
            "type": "object",
            "properties": {"agent": _NAME, "message": MESSAGE, "task_id": TASK_ID, "wait": _WAIT},
            "required": ["agent", "message"],
        }
        listing: dict[str, Any] = {"type": "object", "properties": {}}
        return (
            Tool(
                "ask_agent",
                _description(found, self._me),
                asking,
                self._ask,
                happens_once=_goes_on,
                action=CallerAction.DELEGATE,
            ),
            Tool("list_agents", "List the agents that may be asked, with what each one does.", listing, self._list),
        )

    def over(self, owner: str, task_id: str) -> None:
        """End the open questions of a task that will not continue."""
        self._conversations.over(owner, task_id)

    async def close(self) -> None:
        await self._conversations.aclose()

    async def _list(self, _: ToolCall) -> str:
        try:
            found = await self._colleagues.list()
        except GatewayUnavailable as error:
            raise ToolError(f"the agents cannot be listed right now: {error}") from None
        lines = [_outcome_line(each, self._me) for each in found]
        # The gateway also forwards to agents that are not in the list.
        more = [f"Only the first {MOST} agents are listed. Others can be asked by name."] if len(lines) == MOST else []
        return "\n".join([*lines, *more]) or "There are no other agents to ask."

    async def _ask(self, call: ToolCall) -> str:
        peer = self._colleagues.peer(call.arguments["agent"])
        if peer is None:
            raise ToolError(f"{call.arguments['agent'][:80]!r} is not the name of an agent; list_agents has the names")
        if name_of(peer) == self._me:
            raise ToolError("an agent cannot ask itself; do this part yourself, or ask another agent")
        if not _goes_on(call.arguments):
            return await self._conversations.ask(peer, call)
        if call.arguments.get("task_id"):
            raise ToolError("wait: false begins a new task; leave out task_id, or answer the question with wait: true")
        return await self.background.begin(peer, call)

    def _keeps(self, name: str) -> bool:
        return name not in self._declared

    async def _authorize(self, _: Peer, owner: str, task_id: str, __: str | None) -> Mapping[str, str]:
        return await self._calls.headers(owner, task_id)


def _goes_on(arguments: Mapping[str, Any]) -> bool:
    """Return whether a call of `ask_agent` does not wait. Its message has the same id if the call is repeated."""
    return not arguments.get("wait", True)


def _description(found: tuple[Colleague, ...], me: str) -> str:
    if not found:
        return "Ask another agent and wait for its answer. list_agents returns the agents that may be asked."
    lines = [_line(each, me) for each in found[:_LISTED]]
    more = [f"- and {len(found) - _LISTED} more, which list_agents returns"] if len(found) > _LISTED else []
    return "\n".join(["Ask one of these agents and wait for its answer:", *lines, *more])


def _outcome_line(colleague: Colleague, me: str) -> str:
    """Return the line with the outcomes. They change often, so the descriptions of tools leave them out."""
    line = _line(colleague, me)
    return f"{line} ({colleague.outcomes})" if colleague.outcomes else line


def _line(colleague: Colleague, me: str) -> str:
    own = me.partition("/")[0]
    name = colleague.name if colleague.namespace == own else f"{colleague.namespace}/{colleague.name}"
    return f"- {name}: {colleague.description or 'an agent of this fleet'}"
