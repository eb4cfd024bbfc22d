"""One conversation with an agent: sends messages and answers, follows tasks, and applies their events to the state.

A lost stream is resumed: the client opens the connection again and subscribes to the task. A message whose task is not
known yet is sent again with the same `messageId`, which agents process once.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from fleetwright_cli.terminal.model.changes import Change, PhaseChanged, SendRefused
from fleetwright_cli.terminal.model.decoding import decode, snapshot
from fleetwright_cli.terminal.model.events import (
    AskAnswered,
    ChatEvent,
    ConnectionEvent,
    MessageSent,
    SendFailed,
    SnapshotEvent,
    StatusEvent,
    TaskAccepted,
)
from fleetwright_cli.terminal.model.reducer import reduce
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.values import ENDED, WAITING, PendingAsk
from fleetwright_cli.terminal.session.messages import Picture, answer_message, new_message
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.errors import (
    AgentUnauthorized,
    AgentUnreachable,
    RequestError,
    TransportError,
)

_FIRST_DELAY: Final = 0.25
_LONGEST_DELAY: Final = 5.0
_SETTLED: Final = ENDED | WAITING


class ChatSession:
    """A conversation and its streams. All methods run in one event loop."""

    def __init__(
        self,
        client: AgentClient,
        context_id: str,
        *,
        on_change: Callable[[Change], None],
        patience: float = float("inf"),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Args: `patience` is how many seconds a lost connection is tried again."""
        self._client = client
        self._on_change = on_change
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._streams: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self.state = ChatState(context_id=context_id)
        self.failure: TransportError | None = None
        """The error that ended the newest stream before its task was settled."""
        self.begun = False
        """True once the agent has a task of this conversation that this client has followed."""

    def send(
        self,
        text: str,
        *,
        body: str | None = None,
        pictures: Sequence[Picture] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> asyncio.Task[None]:
        """Send a message that starts a task. The returned task ends when the A2A task has ended or waits.

        Args: `body` is the text for the agent, if it has more than the user has typed.
        """
        message_id = str(uuid4())
        self._apply(MessageSent(message_id, text))
        message = new_message(body or text, message_id=message_id, context_id=self.state.context_id, pictures=pictures)
        return self._start(self._follow(message, metadata))

    def answer(self, ask: PendingAsk, value: str | Mapping[str, Any], summary: str) -> asyncio.Task[None]:
        """Answer an ask. If the agent refuses the answer, the ask opens again with the state of the task."""
        self._apply(AskAnswered(ask, summary))
        return self._start(self._follow(answer_message(ask, value, message_id=str(uuid4())), None))

    def subscribe(self, task_id: str) -> asyncio.Task[None]:
        """Follow a task that this client has not started."""
        return self._start(self._follow({"taskId": task_id, "messageId": ""}, None))

    async def load(self, task_id: str) -> SnapshotEvent:
        """Read a task, and apply it. Raises: TransportError."""
        found = snapshot(await self._client.get(task_id))
        self._apply(found)
        return found

    async def cancel(self, task_id: str) -> None:
        """Cancel a task. A task that has ended stays as it is. Raises: TransportError."""
        try:
            self._apply(snapshot(await self._client.cancel(task_id)))
        except RequestError:
            await self.load(task_id)

    async def settled(self) -> None:
        """Wait until every stream has ended."""
        while self._streams:
            await asyncio.wait(self._streams)

    async def detach(self) -> None:
        """End the streams. Their tasks keep running on the agent."""
        for stream in self._streams:
            stream.cancel()
        await self.settled()

    async def close(self) -> None:
        """End the streams and the connection."""
        await self.detach()
        await self._client.close()

    def apply(self, event: ChatEvent) -> None:
        """Apply an event that does not come from a stream, such as a task of the history."""
        self._apply(event)

    def _start(self, coroutine: Any) -> asyncio.Task[None]:
        stream: asyncio.Task[None] = asyncio.create_task(coroutine)
        self._streams.add(stream)
        stream.add_done_callback(self._streams.discard)
        return stream

    def _apply(self, event: ChatEvent) -> None:
        self.state, changes = reduce(self.state, event, at=self._clock())
        for change in changes:
            self._on_change(change)
        if any(isinstance(change, PhaseChanged | SendRefused) for change in changes):
            self._start(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _follow(self, message: dict[str, Any], metadata: Mapping[str, Any] | None) -> None:
        """Follow the task of a message until it has ended or waits."""
        stream = _Stream(message, metadata, sent=not message["messageId"])
        self.failure = None
        lost_at: float | None = None
        delay = _FIRST_DELAY
        while True:
            generation = self._client.generation
            try:
                async for event in self._events(stream):
                    lost_at, delay = None, _FIRST_DELAY
                    self._apply(ConnectionEvent(True))
                    await self._turn(stream.task_id)
                    self._receive(stream, event)
                if stream.settled:
                    return
                reason = "the stream ended"
            except AgentUnreachable as error:
                reason = str(error)
                self.failure = error
            except (AgentUnauthorized, RequestError) as error:
                await self._refused(stream, error)
                return
            except TransportError as error:
                self._fail(stream, error)
                return
            except Exception as error:
                self._fail(stream, TransportError(f"unexpected {type(error).__name__} in this client"))
                return
            lost_at = self._clock() if lost_at is None else lost_at
            if self._clock() - lost_at >= self._patience:
                self._fail(stream, AgentUnreachable(reason))
                return
            self._apply(ConnectionEvent(False, reason))
            await self._sleep(delay)
            delay = min(delay * 2, _LONGEST_DELAY)
            await self._client.renew(generation)

    async def _events(self, stream: "_Stream") -> AsyncIterator[ChatEvent]:
        sends = not stream.sent or not stream.task_id
        source = self._client.send(stream.message, stream.metadata) if sends else self._client.subscribe(stream.task_id)
        async with contextlib.aclosing(source):  # type: ignore[type-var] # the client's streams are generators
            async for result in source:
                stream.sent = True
                if (event := decode(result)) is not None:
                    yield event

    async def _turn(self, task_id: str) -> None:
        """Wait until the tasks before a queued one have ended.

        Each task has a stream of its own, so the begin of one task may arrive before the end of the other.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_behind(task_id))

    def _is_behind(self, task_id: str) -> bool:
        task = self.state.tasks.get(task_id)
        if task is None or not task.text:
            return False
        before = itertools.takewhile(lambda each: each.task_id != task_id, self.state.tasks.values())
        return any(each.phase not in WAITING for each in before)

    def _receive(self, stream: "_Stream", event: ChatEvent) -> None:
        status = event.status if isinstance(event, SnapshotEvent) else event
        if isinstance(status, StatusEvent):
            self.begun = True
            if not stream.task_id:
                stream.task_id = status.task_id
                self._apply(TaskAccepted(stream.message["messageId"], status.task_id))
            stream.settled = status.phase in _SETTLED
        self._apply(event)

    async def _refused(self, stream: "_Stream", error: TransportError) -> None:
        """Read the task if the agent has refused a subscription, because the task has ended meanwhile."""
        if stream.task_id:
            with contextlib.suppress(TransportError):
                found = await self.load(stream.task_id)
                self._apply(ConnectionEvent(True))
                if found.status.phase in _SETTLED and stream.sent:
                    return
        self._fail(stream, error)

    def _fail(self, stream: "_Stream", error: TransportError) -> None:
        self.failure = error
        self._apply(SendFailed(stream.message["messageId"], str(error), stream.task_id))


class _Stream:
    """The progress of one stream."""

    def __init__(self, message: dict[str, Any], metadata: Mapping[str, Any] | None, *, sent: bool) -> None:
        self.message = message
        self.metadata = metadata
        self.task_id: str = message.get("taskId", "")
        self.sent = sent
        """True once the agent has accepted the message."""
        self.settled = False
