"""Conversations with other agents over A2A, whatever the way to them is.

The agent fetches the card from the declared address, and calls the peer there whatever address the card names. The
card's address is for outside callers, and a card must not redirect this agent's credential. The credential is read
before each call, and again before each later request about its task. Headers of the caller are never forwarded. The
call path in the message's metadata prevents loops.

The model answers a peer's question with another call, which names the peer's task. This module never grants an approval
that a peer wants from a person.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from functools import partial

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCard,
    GetTaskRequest,
    StreamResponse,
)
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError

from fleetwright_a2a.extensions import MAX_CALLS
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import Frame, PeerCost, TurnRequest
from fleetwright_agent.storage.open_questions import (
    DelegatedTask,
    OpenQuestion,
    OpenQuestions,
    PeerCallStatus,
    QuestionKey,
)
from fleetwright_agent.tools.peers.answers import open_question
from fleetwright_agent.tools.peers.authorization import TaskAuthorization
from fleetwright_agent.tools.peers.call_records import CallRecords, PeerCallRecord
from fleetwright_agent.tools.peers.failures import causes_of, meaning_of, status_of
from fleetwright_agent.tools.peers.polling import GOES_ON, asks, cancel, outcome, poll_task
from fleetwright_agent.tools.peers.questions import IsUndelivered, PeerQuestions, nothing_is_undelivered
from fleetwright_agent.tools.peers.requests import (
    log_begun,
    message_request,
    task_request,
    trace_headers,
)
from fleetwright_agent.tools.peers.response import PeerResponse, ResponseTooLarge
from fleetwright_agent.tools.peers.retries import RequestRetries, Sleep
from fleetwright_agent.tools.port import ToolCall, ToolError

Authorize = Callable[[Peer, str, str, str | None], Awaitable[Mapping[str, str]]]
"""Returns the headers that authorize a call of a peer. The arguments are the peer, the owner and id of this agent's
task, and the task of the peer to which the call sends a message. That task is empty if the message begins a task, and
None if the call sends no message.

Raises ToolError if this agent holds no credential for the peer.
"""
_RESULT_SECONDS = 5.0
"""The time limit for reading a task that was begun before. A turn waits for the answer."""
_GONE = (403, 404, 410)
"""The statuses of a peer that does not exist any more, or that this agent may no longer call."""
_LEAVE_SECONDS = 5.0
"""The time limit for cancelling a peer's task, including the request for the peer's card."""


class PeerUnreachable(Exception):  # noqa: N818 - describes the peer
    """The peer cannot be asked right now."""


class PeerConversations:
    """Asks other agents and keeps their open questions. The caller of this class closes the HTTP client."""

    def __init__(
        self,
        me: str,
        client: httpx.AsyncClient,
        kept: OpenQuestions,
        records: CallRecords,
        *,
        find: Callable[[str], Peer | None],
        authorize: Authorize,
        keeps: Callable[[str], bool] = lambda _: True,
        is_undelivered: IsUndelivered = nothing_is_undelivered,
        outlived: bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Args:
        me: This agent, as `<namespace>/<name>`.
        client: Connects only to the declared hosts.
        kept: The store of the peers' questions.
        records: Records the calls.
        find: Returns the peer with a name `<namespace>/<name>`.
        authorize: Returns the headers with the current credentials for a peer.
        keeps: Returns True for the names of peers whose questions this instance ends.
        is_undelivered: Returns whether a later turn delivers a question again.
        outlived: True if the store survives a restart.
        sleep: Waits before a request is repeated, and before a task is read again.
        """
        self._me = me
        self._client = client
        self._records = records
        self._find = find
        self._authorize = authorize
        self._sleep = sleep
        self._questions = PeerQuestions(
            kept,
            self._give_up,
            is_ours=lambda question: keeps(question.place.peer),
            is_undelivered=is_undelivered,
            outlived=outlived,
        )

    def over(self, owner: str, task_id: str) -> None:
        """End the open questions of a task that will not continue."""
        self._questions.over(owner, task_id)

    async def aclose(self) -> None:
        await self._questions.aclose()

    async def _give_up(self, question: OpenQuestion) -> None:
        peer = self._find(question.place.peer)
        with contextlib.suppress(Exception):
            if peer is not None:
                async with asyncio.timeout(_LEAVE_SECONDS):
                    owner, task_id = question.place.owner, question.asked_in
                    client, context = await self._reached(peer, owner, task_id)
                    await cancel(client, self._authorization(peer, owner, task_id, context), question.task_id)

    async def ask(self, peer: Peer, call: ToolCall) -> str:
        """Send the call's `message` to a peer, and return its answer or its question.

        A request to a peer that is busy or restarts is repeated.

        Raises:
            ToolError: The peer could not be asked, or gave no answer.
        """
        path = self._path(peer, call)
        async with self._records.record(_place(peer, call.turn), call) as record:
            try:
                heard = await self._converse(peer, call, path, record)
            except ResponseTooLarge:
                raise ToolError(f"{peer.name} said more than this agent listens to") from None
            except (httpx.HTTPError, A2AClientError, A2AError, OSError) as error:
                raise ToolError(f"{peer.name} could not be asked: {meaning_of(error)}") from error
            text = outcome(peer.name, heard)
            if asks(heard):
                await record.asked(heard.sentence)
            else:
                await record.ended(PeerCallStatus.COMPLETED, text)
            return text

    def _path(self, peer: Peer, call: ToolCall) -> tuple[str, ...]:
        """Return the agents that a request to the peer comes through. Raises: ToolError."""
        path = (*call.turn.call_path, self._me)
        if name_of(peer) in path:
            raise ToolError(f"{peer.name} is already part of this request ({' > '.join(path)}); asking it would loop")
        if len(path) > MAX_CALLS:
            raise ToolError(f"this request already went through {len(path)} agents; answer without asking further")
        return path

    async def begin(self, peer: Peer, call: ToolCall) -> str:
        """Send the call's `message` to a peer as a new task, and return the id of the task at once.

        A repeated call sends the same message with the same id, so the peer returns the task that it has already begun.

        Raises:
            ToolError: The peer could not be asked.
        """
        path = self._path(peer, call)
        async with self._records.record(_place(peer, call.turn), call) as record:
            task_id = await self._begin(peer, call, path)
            await record.dispatched(task_id)
            return task_id

    async def _begin(self, peer: Peer, call: ToolCall, path: tuple[str, ...]) -> str:
        place = _place(peer, call.turn)
        request = task_request(place, call, path)
        heard, retries = PeerResponse(), RequestRetries(name_of(peer), self._sleep)
        reach = partial(self._reached, peer, call.turn.owner, call.turn.task_id, continues="", streaming=False)
        try:
            client, context = await retries.run(reach)
            context.service_parameters = {**(context.service_parameters or {}), **trace_headers(call)}

            async def send() -> None:
                async for event in client.send_message(request, context=context):
                    heard.take(event)

            await retries.run(send, may_repeat=lambda: not heard.has_begun)
        except (httpx.HTTPError, A2AClientError, A2AError, OSError, ResponseTooLarge) as error:
            raise ToolError(f"{peer.name} could not be asked: {meaning_of(error)}") from error
        if not heard.task_id:
            raise ToolError(f"{peer.name} began no task; ask it again with wait: true")
        log_begun(place, call, heard.task_id)
        return heard.task_id

    async def read(self, peer: Peer, task: DelegatedTask, turn: TurnRequest) -> PeerResponse | None:
        """Return what the peer says about a task that was begun before, or None while the peer works on it.

        Raises:
            ToolError: There is no result, and there will be none.
            PeerUnreachable: The peer cannot be asked right now.
        """
        try:
            return await self._read(peer, task, turn)
        except ToolError as error:
            await self._records.ended(_place(peer, turn), task.task_id, PeerCallStatus.FAILED, str(error))
            raise

    async def conclude(
        self, peer: Peer, heard: PeerResponse, turn: TurnRequest, emit: Callable[[Frame], None]
    ) -> str | None:
        """Return the result of a task that was begun before: the answer or the question of the peer.

        Return None if the question has to wait, because another question of the peer is open in the conversation.

        Raises:
            ToolError: There is no result, and there will be none.
        """
        place = _place(peer, turn)
        if asks(heard):
            if not await self._questions.offer(OpenQuestion(place, heard.task_id, turn.task_id)):
                return None
            await self._records.asked(place, heard.task_id, heard.sentence, turn.task_id)
        if (cost := sum(heard.costs, Decimal(0))) > 0:
            emit(PeerCost(peer.name, cost))
        try:
            text = outcome(peer.name, heard)
        except ToolError as error:
            await self._records.ended(place, heard.task_id, PeerCallStatus.FAILED, str(error))
            raise
        if not asks(heard):
            await self._records.ended(place, heard.task_id, PeerCallStatus.COMPLETED, text)
        return text

    async def _read(self, peer: Peer, task: DelegatedTask, turn: TurnRequest) -> PeerResponse | None:
        heard = PeerResponse(task.task_id)
        try:
            async with asyncio.timeout(_RESULT_SECONDS):
                client, context = await self._reached(peer, turn.owner, turn.task_id)
                found = await client.get_task(GetTaskRequest(id=task.task_id, history_length=0), context=context)
                heard.take(StreamResponse(task=found))
        except ResponseTooLarge:
            raise ToolError(f"{peer.name} said more than this agent listens to") from None
        except (TaskNotFoundError, InvalidParamsError):
            raise ToolError(f"{peer.name} no longer knows this task") from None
        except (httpx.HTTPError, A2AClientError, A2AError, OSError, ToolError, TimeoutError) as error:
            if any(status_of(each) in _GONE for each in causes_of(error)):
                raise ToolError(f"{peer.name} can no longer be asked") from error
            raise PeerUnreachable(f"{peer.name} could not be asked: {meaning_of(error)}") from error
        if heard.task_id != task.task_id:
            raise ToolError(f"{peer.name} answered with another task")
        if heard.state in GOES_ON or heard.is_reviewed:
            return None
        if heard.wants_approval:
            await cancel(client, self._authorization(peer, turn.owner, turn.task_id, context), task.task_id)
        return heard

    async def _converse(
        self, peer: Peer, call: ToolCall, path: tuple[str, ...], record: PeerCallRecord
    ) -> PeerResponse:
        retries = RequestRetries(name_of(peer), self._sleep)
        answered = call.arguments.get("task_id", "")
        reach = partial(self._reached, peer, call.turn.owner, call.turn.task_id, continues=answered)
        client, context = await retries.run(reach)
        place = _place(peer, call.turn)
        ask, told = await open_question(peer.name, client, context, answered, place) if answered else ({}, Decimal(0))
        await self._questions.end(place, answered=answered)

        async def begun(task_id: str) -> None:
            if answered:
                await record.answers(task_id)
                return
            log_begun(place, call, task_id)
            await record.dispatched(task_id)

        request = message_request(place, call, path, ask)
        authorization = self._authorization(peer, call.turn.owner, call.turn.task_id, context)
        heard = await poll_task(client, request, authorization, begun=begun, retries=retries, sleep=self._sleep)
        if asks(heard):
            await self._questions.put(OpenQuestion(place, heard.task_id, call.turn.task_id))
        # A peer reports the total of its task, including the cost before its question, which was already charged.
        if (since := sum(heard.costs, Decimal(0)) - told) > 0:
            call.emit(PeerCost(peer.name, since))
        return heard

    def _authorization(self, peer: Peer, owner: str, task_id: str, context: ClientCallContext) -> TaskAuthorization:
        """Return the authorization of the requests about a task of the peer that send no message to it."""
        return TaskAuthorization(context, partial(self._authorize, peer, owner, task_id, None))

    async def _reached(
        self, peer: Peer, owner: str, task_id: str, *, continues: str | None = None, streaming: bool = True
    ) -> tuple[Client, ClientCallContext]:
        authorization = dict(await self._authorize(peer, owner, task_id, continues))
        resolver = A2ACardResolver(self._client, peer.url)
        # The gateway shows a card only to callers that may see the agent.
        card = await resolver.get_agent_card(http_kwargs={"headers": authorization})
        config = ClientConfig(httpx_client=self._client, supported_protocol_bindings=["JSONRPC"], streaming=streaming)
        client = ClientFactory(config).create(_at_its_declared_address(card, peer))
        return client, ClientCallContext(service_parameters=authorization)


def name_of(peer: Peer) -> str:
    return f"{peer.namespace}/{peer.name}"


def _place(peer: Peer, turn: TurnRequest) -> QuestionKey:
    return QuestionKey(turn.owner, turn.context_id, name_of(peer))


def _at_its_declared_address(card: AgentCard, peer: Peer) -> AgentCard:
    for interface in card.supported_interfaces:
        interface.url = f"{peer.url.rstrip('/')}/a2a"
    return card
