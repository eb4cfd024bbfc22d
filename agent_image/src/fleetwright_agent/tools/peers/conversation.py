"""Conversations with other agents over A2A, whatever the way to them is.

The agent fetches the card from the declared address, and calls the peer there whatever address the card names. The
card's address is for outside callers, and a card must not redirect this agent's credential. The credential is read
before each call; headers of the caller are never forwarded. The call path in the message's metadata prevents loops.

The model answers a peer's question with another call, which names the peer's task. This module never grants an approval
that a peer wants from a person.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCard,
    GetTaskRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extensions import ASK, MAX_CALLS
from fleetwright_a2a.outbound.bounded_responses import TooLarge
from fleetwright_a2a.outbound.pinned_http import DeniedAddress
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import Frame, PeerCost, TurnRequest
from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, OpenQuestions, QuestionKey
from fleetwright_agent.tools.peers.polling import ENDED, GOES_ON, asks, cancel, causes_of, poll_task, status_of
from fleetwright_agent.tools.peers.questions import PeerQuestions
from fleetwright_agent.tools.peers.requests import (
    context_id_at_peer,
    log_begun,
    message_request,
    task_request,
    trace_headers,
)
from fleetwright_agent.tools.peers.response import PeerResponse, TooManyArtifacts, wants_approval
from fleetwright_agent.tools.port import ToolCall, ToolError

Authorize = Callable[[Peer, str, str], Awaitable[Mapping[str, str]]]
"""Returns the headers that authorize a call of a peer. The arguments are the peer, and the owner and id of this agent's
task.

Raises ToolError if this agent holds no credential for the peer.
"""
_RESULT_SECONDS = 5.0
_GONE = (403, 404, 410)
"""The statuses of a peer that does not exist any more, or that this agent may no longer call."""
"""The time limit for reading a task that was begun before. A turn waits for the answer."""
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
        *,
        find: Callable[[str], Peer | None],
        authorize: Authorize,
        keeps: Callable[[str], bool] = lambda _: True,
        outlived: bool = True,
    ) -> None:
        """Args:
        me: This agent, as `<namespace>/<name>`.
        client: Connects only to the declared hosts.
        kept: The store of the peers' questions.
        find: Returns the peer with a name `<namespace>/<name>`.
        authorize: Returns the headers with the current credentials for a peer.
        keeps: Returns True for the names of peers whose questions this instance ends.
        outlived: True if the store survives a restart.
        """
        self._me = me
        self._client = client
        self._find = find
        self._authorize = authorize
        self._questions = PeerQuestions(
            kept, self._give_up, is_ours=lambda question: keeps(question.place.peer), outlived=outlived
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
                    reached = await self._reached(peer, question.place.owner, question.asked_in)
                    await cancel(*reached, question.task_id)

    async def ask(self, peer: Peer, call: ToolCall) -> str:
        """Send the call's `message` to a peer, and return its answer or its question.

        Raises:
            ToolError: The peer could not be asked, or gave no answer.
        """
        path = self._path(peer, call)
        try:
            return await self._converse(peer, call, path)
        except TooManyArtifacts:
            raise ToolError(f"{peer.name} said more than this agent listens to") from None
        except (httpx.HTTPError, A2AClientError, A2AError, OSError) as error:
            raise ToolError(f"{peer.name} could not be asked: {_meaning(error)}") from error

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
        place = QuestionKey(call.turn.owner, call.turn.context_id, name_of(peer))
        request = task_request(place, call, path)
        heard = PeerResponse()
        try:
            client, context = await self._reached(peer, call.turn.owner, call.turn.task_id, streaming=False)
            context.service_parameters = {**(context.service_parameters or {}), **trace_headers(call)}
            async for event in client.send_message(request, context=context):
                heard.take(event)
        except (httpx.HTTPError, A2AClientError, A2AError, OSError, TooManyArtifacts) as error:
            raise ToolError(f"{peer.name} could not be asked: {_meaning(error)}") from error
        if not heard.task_id:
            raise ToolError(f"{peer.name} began no task; ask it again with wait: true")
        log_begun(place, call, heard.task_id)
        return heard.task_id

    async def result(self, peer: Peer, task: DelegatedTask, turn: TurnRequest, emit: Callable[[Frame], None]) -> str:
        """Return the result of a task that was begun before, or an empty text while the peer works on it.

        Raises:
            ToolError: There is no result, and there will be none.
            PeerUnreachable: The peer cannot be asked right now.
        """
        heard = PeerResponse(task.task_id)
        try:
            async with asyncio.timeout(_RESULT_SECONDS):
                client, context = await self._reached(peer, turn.owner, turn.task_id)
                found = await client.get_task(GetTaskRequest(id=task.task_id, history_length=0), context=context)
                heard.take(StreamResponse(task=found))
        except TooManyArtifacts:
            raise ToolError(f"{peer.name} said more than this agent listens to") from None
        except (TaskNotFoundError, InvalidParamsError):
            raise ToolError(f"{peer.name} no longer knows this task") from None
        except (httpx.HTTPError, A2AClientError, A2AError, OSError, ToolError, TimeoutError) as error:
            if any(status_of(each) in _GONE for each in causes_of(error)):
                raise ToolError(f"{peer.name} can no longer be asked") from error
            raise PeerUnreachable(f"{peer.name} could not be asked: {_meaning(error)}") from error
        if heard.state in GOES_ON or heard.is_reviewed:
            return ""
        if asks(heard):
            place = QuestionKey(turn.owner, turn.context_id, name_of(peer))
            await self._questions.put(OpenQuestion(place, heard.task_id, turn.task_id))
        elif heard.wants_approval:
            await cancel(client, context, task.task_id)
        if (cost := sum(heard.costs, Decimal(0))) > 0:
            emit(PeerCost(peer.name, cost))
        return _outcome(peer, heard)

    async def _converse(self, peer: Peer, call: ToolCall, path: tuple[str, ...]) -> str:
        client, context = await self._reached(peer, call.turn.owner, call.turn.task_id)
        place = QuestionKey(call.turn.owner, call.turn.context_id, name_of(peer))
        answered = call.arguments.get("task_id", "")
        ask, told = await _question(peer, client, context, answered, place) if answered else ({}, Decimal(0))
        await self._questions.end(place, answered=answered)
        begun = partial(log_begun, place, call)
        heard = await poll_task(client, message_request(place, call, path, ask), context, begun=begun)
        if asks(heard):
            await self._questions.put(OpenQuestion(place, heard.task_id, call.turn.task_id))
        # A peer reports the total of its task, including the cost before its question, which was already charged.
        if (since := sum(heard.costs, Decimal(0)) - told) > 0:
            call.emit(PeerCost(peer.name, since))
        return _outcome(peer, heard)

    async def _reached(
        self, peer: Peer, owner: str, task_id: str, *, streaming: bool = True
    ) -> tuple[Client, ClientCallContext]:
        authorization = dict(await self._authorize(peer, owner, task_id))
        resolver = A2ACardResolver(self._client, peer.url)
        # The gateway shows a card only to callers that may see the agent.
        card = await resolver.get_agent_card(http_kwargs={"headers": authorization})
        config = ClientConfig(httpx_client=self._client, supported_protocol_bindings=["JSONRPC"], streaming=streaming)
        client = ClientFactory(config).create(_at_its_declared_address(card, peer))
        return client, ClientCallContext(service_parameters=authorization)


def name_of(peer: Peer) -> str:
    return f"{peer.namespace}/{peer.name}"


async def _question(
    peer: Peer, client: Client, context: ClientCallContext, task_id: str, place: QuestionKey
) -> tuple[dict[str, Any], Decimal]:
    """Return the metadata that names the open question, and the cost that the peer has reported so far.

    The metadata prevents the peer from applying the answer to another question. The model could name any task, so this
    function accepts only a question of this conversation, and no request for approval.

    Raises:
        ToolError: The task has no such question.
    """
    try:
        task = await client.get_task(GetTaskRequest(id=task_id, history_length=0), context=context)
    except (TaskNotFoundError, InvalidParamsError):
        task = Task()
    if task.context_id != context_id_at_peer(place) or task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
        raise ToolError(f"{peer.name} has no open question with this task_id; ask again without task_id")
    if wants_approval(task.status):
        raise ToolError(f"{peer.name} waits for the approval of a person, which no agent gives")
    about = MessageToDict(task.status.message.metadata).get(ASK)
    heard = PeerResponse()
    heard.take(StreamResponse(task=task))
    cost = sum(heard.costs, Decimal(0))
    return ({ASK: {"id": about["id"]}} if isinstance(about, dict) and "id" in about else {}), cost


def _at_its_declared_address(card: AgentCard, peer: Peer) -> AgentCard:
    for interface in card.supported_interfaces:
        interface.url = f"{peer.url.rstrip('/')}/a2a"
    return card


def _outcome(peer: Peer, heard: PeerResponse) -> str:
    if heard.state in ENDED:
        raise ToolError(f"{peer.name} ended without an answer: {heard.sentence or 'it gave no reason'}")
    if heard.wants_approval:
        raise ToolError(
            f"{peer.name} did not go on without the approval of a person, which no agent gives: {heard.sentence} "
            "Say so in your answer"
        )
    if asks(heard):
        return (
            f"{peer.name} asks before it goes on: {heard.sentence}\nIt waits until the end of this turn. To answer, "
            f'call this tool again with task_id "{heard.task_id}" and the answer as message'
        )
    if heard.state != TaskState.TASK_STATE_COMPLETED:
        raise ToolError(f"{peer.name} stopped answering before it was done")
    return heard.text


def _meaning(error: BaseException) -> str:
    """Describe the failure. The client wraps errors, so the HTTP status may be in one of the causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.HTTPStatusError):
            status = cause.response.status_code
            refused = "it does not accept this agent as a caller (401)"
            return refused if status == 401 else f"it answered {status}"
        if isinstance(cause, httpx.TimeoutException):
            return "it did not answer in time"
        if isinstance(cause, DeniedAddress):
            return "its name leads to an address that agents may not reach"
        if isinstance(cause, TooLarge):
            return "it sent more than this agent reads"
        cause = cause.__cause__
    return "no connection"
