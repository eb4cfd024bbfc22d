"""Handles the input of one chat: messages, answers and commands. This module knows no screen.

A screen implements `ChatScreen`, and gives each submitted text and each decision to this module.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from fleetwright_a2a.extensions import CONTEXT_FORK, CONTEXT_TITLE, INCOGNITO, MODEL, SKILL_HINT, WORKSPACE_UNDO
from fleetwright_cli.safe_text import one_line
from fleetwright_cli.terminal.model.changes import Change, CostChanged, PhaseChanged, TextAdded, UserMessageShown
from fleetwright_cli.terminal.model.events import CallsRecalled, SnapshotEvent
from fleetwright_cli.terminal.model.forms import FormProgress, InvalidField, form_of
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.values import ENDED, PendingAsk
from fleetwright_cli.terminal.session.chat_session import ChatSession
from fleetwright_cli.terminal.session.conversations import conversations, earlier_turns, rename, transcript
from fleetwright_cli.terminal.session.history_points import ForkPoint, fork_point, undo_metadata, undo_target
from fleetwright_cli.terminal.session.local_index import IndexEntry, LocalIndex
from fleetwright_cli.terminal.session.mentions import with_mentions
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.errors import TransportError
from fleetwright_cli.terminal.view.chat_commands import ChatCommands
from fleetwright_cli.terminal.view.chat_screen import ChatScreen
from fleetwright_cli.terminal.view.slash_commands import slash_command


class ChatController:
    """One user at one agent, in one conversation at a time."""

    def __init__(
        self,
        client: AgentClient,
        screen: ChatScreen,
        index: LocalIndex,
        *,
        folder: Path,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Args: `folder` is where mentioned files and exports lie."""
        self.client = client
        self.screen = screen
        self.index = index
        self.folder = folder
        self._now = now
        self.metadata: dict[str, Any] = {}
        """Metadata of the next messages, such as a chosen model."""
        self.skill = ""
        """The skill of the agent for the next message."""
        self._expected_model = ""
        """The model that the running task was asked to use; empty if the user has chosen none."""
        self._fork: ForkPoint | None = None
        """The history with which the next message begins its conversation."""
        self._commands = ChatCommands(self)
        self.form: FormProgress | None = None
        self.session = self._new_session(str(uuid4()))

    @property
    def state(self) -> ChatState:
        return self.session.state

    async def submit(self, text: str) -> None:
        """Handle a submitted input: a command, a value of a form, an answer, or a message."""
        if not text.strip():
            return
        command = slash_command(text)
        if command is not None:
            await self._commands.run(command)
            return
        ask = next((each for each in self.state.asks if not each.is_approval), None)
        if ask is None:
            self._send(text)
        elif ask.steps:
            self._fill(ask, text)
        else:
            self.session.answer(ask, text, one_line(text, 80))

    def decide(self, ask: PendingAsk, key: str) -> None:
        """Decide an approval. Args: `key` is `y`, `a`, `n` or `d`."""
        if key == "d":
            self.screen.open_text(ask.title or f"Run {ask.tool}?", ask.detail or ask.prompt)
        elif ask.reviewed:
            self.screen.note("Other people decide this call, for example with `fleetwright approve`.")
        elif key == "y":
            self.session.answer(ask, "yes", "approved")
        elif key == "n":
            self.session.answer(ask, "no", "declined")
        elif ask.grants:
            grant = ask.grants[0]
            self.session.answer(ask, {"approved": True, "grant": grant.key}, f"approved, always {grant.title}")
        else:
            self.screen.note("The agent offers no permission for the rest of the conversation; y approves once.")

    async def cancel(self) -> None:
        """Cancel the current task."""
        current = self.state.current
        if current is None:
            self.screen.note("No task runs.")
            return
        try:
            await self.session.cancel(current.task_id)
        except TransportError as error:
            self.screen.note(f"not cancelled: {error}", bad=True)

    def open_tool(self, number: int | None = None) -> None:
        """Open the output of a tool call; the newest one without a number."""
        card = self.state.cards[-1] if number is None and self.state.cards else self.state.card(number or 0)
        if card is None:
            self.screen.note("There is no such tool call; the cards show the numbers in brackets.")
            return
        body = card.result or card.output
        shown = len(body)
        more = f"\n\n[{card.characters} characters in all; the agent sends the first {shown}]"
        end = more if card.characters > shown else ""
        self.screen.open_text(f"[{card.number}] {card.name}", f"{card.arguments}\n\n{body}{end}")

    async def begin(self) -> None:
        """Begin another conversation. The tasks of the old one continue on the agent."""
        await self.session.detach()
        self.session = self._new_session(str(uuid4()))

    async def resume(self, context_id: str) -> None:
        """Continue a conversation: show its newest turns, and follow its open tasks. Raises: TransportError."""
        tasks = await transcript(self.client, context_id)
        turns = [each for each in tasks if not each.names]
        if not tasks and all(each.context_id != context_id for each in self.index.of(self.client.endpoint.key)):
            self.screen.note(f"No conversation {one_line(context_id, 64)} is known. /sessions lists them.", bad=True)
            return
        earlier = await earlier_turns(self.client, turns)
        await self.session.detach()
        self.session = self._new_session(context_id)
        for turn in earlier:
            self._show_turn(turn)
        if not turns:
            self.screen.note("The agent remembers this conversation; its transcript is gone.")
        for turn in turns:
            if turn.status.phase in ENDED:
                self._show_turn(turn)
        for turn in turns:
            if turn.status.phase not in ENDED:
                self.session.apply(turn)
                self.session.subscribe(turn.status.task_id)

    async def rename(self, title: str) -> None:
        """Name the conversation on the agent, and in the list of this machine. Raises: TransportError."""
        key, context_id = self.client.endpoint.key, self.state.context_id
        if self.state.busy:
            self.screen.note("A task runs. Name the conversation when it has ended.", bad=True)
            return
        kept = CONTEXT_TITLE in (await self.client.card()).extensions
        if kept:
            await rename(self.client, context_id, title)
        listed = kept
        with contextlib.suppress(OSError):
            if self.index.rename(key, context_id, title):
                listed = True
            elif kept:
                self._record(title)
        told = "Renamed." if kept else "Renamed on this machine; the agent stores no titles."
        self.screen.note(told if listed else "Name a conversation after its first message.", bad=not listed)

    async def undo(self, count: int) -> None:
        """Undo the file changes of the last tasks. The agent answers in the conversation. Raises: TransportError."""
        if WORKSPACE_UNDO not in (await self.client.card()).extensions:
            self.screen.note("This agent cannot undo changes of files. Agents with a workspace can.", bad=True)
            return
        task = undo_target(await transcript(self.client, self.state.context_id), count)
        if task is None:
            self.screen.note("This conversation has no more tasks to undo.", bad=True)
            return
        said = next((text for role, text in task.history if role == "user"), "")
        self.screen.note(f"Undoing the changes of files since: {one_line(said, 80)}")
        self.session.send("/undo", metadata=undo_metadata(task))

    async def fork(self, left_out: int) -> None:
        """Begin a conversation with the history of this one, without its last turns. Raises: TransportError."""
        if CONTEXT_FORK not in (await self.client.card()).extensions:
            text = "This agent cannot copy a conversation. Agents with a workspace or a2a.extensions.context can."
            self.screen.note(text, bad=True)
            return
        turns = [each for each in await transcript(self.client, self.state.context_id) if each.status.phase in ENDED]
        point = fork_point(self.state.context_id, turns, left_out)
        if point is None:
            self.screen.note("No earlier turn is known. /new begins a conversation without history.", bad=True)
            return
        await self.begin()
        self._fork = point
        self.screen.note(
            "Your next message continues a copy of the conversation, and the old one stays. Files stay as they are; "
            "/undo in the old conversation restores them."
        )

    async def newest(self) -> str:
        """Return the id of the newest conversation, or an empty text. Raises: TransportError."""
        listed = await conversations(self.client, self.index.of(self.client.endpoint.key))
        newest = max(listed, key=lambda each: each.used, default=None)
        return "" if newest is None else newest.context_id

    async def close(self) -> None:
        await self.session.close()

    def _new_session(self, context_id: str) -> ChatSession:
        self.form = None
        self._fork = None
        return ChatSession(self.client, context_id, on_change=self._changed)

    def _changed(self, change: Change) -> None:
        if self.form is not None and self.form.ask not in self.state.asks:
            self.form = None
        self.screen.show(change)
        if isinstance(change, CostChanged):
            self._check_model(change.cost.models)
        if isinstance(change, PhaseChanged) and change.phase in ENDED:
            self._record("")

    def _send(self, text: str) -> None:
        mentioned = with_mentions(text, self.folder)
        for problem in mentioned.problems:
            self.screen.note(problem, bad=True)
        metadata = dict(self.metadata) | ({SKILL_HINT: self.skill} if self.skill else {})
        fork, self._fork, self.skill = self._fork, None, ""
        if fork is not None:
            metadata |= fork.metadata
        # The cost of a task that already runs is that of an earlier choice.
        self._expected_model = str(metadata.get(MODEL, "")) if self.state.current is None else ""
        sent = self.session.send(text, body=mentioned.text, pictures=mentioned.pictures, metadata=metadata or None)
        if fork is not None:
            sent.add_done_callback(partial(self._keep_fork, self.session, fork))
        self._record(text)

    def _keep_fork(self, session: ChatSession, fork: ForkPoint, _: "asyncio.Task[None]") -> None:
        """Use the fork for the next message too if the conversation has not begun, because its message failed."""
        if session is self.session and not session.begun:
            self._fork = fork

    def _check_model(self, used: Sequence[str]) -> None:
        """Tell the user once if the agent has ignored the choice of a model."""
        expected = self._expected_model
        if used and expected and expected not in used:
            self._expected_model = ""
            self.metadata.pop(MODEL, None)
            models = one_line(", ".join(used), 80)
            self.screen.note(f"The agent used {models}. Its a2a.callerChoices must name Model for /model.", bad=True)

    def _fill(self, ask: PendingAsk, text: str) -> None:
        form = self.form if self.form is not None and self.form.ask == ask else form_of(ask)
        try:
            form = form.with_text(text)
        except InvalidField as error:
            self.screen.note(str(error), bad=True)
            return
        self.form = form
        if form.current is None:
            self.form = None
            self.session.answer(ask, form.values, "answered")

    def _record(self, title: str) -> None:
        """Update the local index. A disk that is full does not end the chat."""
        usd = self.state.cost.usd
        cost = "" if usd is None else f"{usd:f}"
        key = self.client.endpoint.key
        if self.metadata.get(INCOGNITO):
            return
        with contextlib.suppress(OSError):
            self.index.record(IndexEntry(key, self.state.context_id, title, self._now(), cost))

    def _show_turn(self, turn: SnapshotEvent) -> None:
        """Show a finished turn of the history: the messages, the tool calls and the answer."""
        task_id = turn.status.task_id
        for role, text in turn.history:
            if role == "user" and text:
                self.screen.show(UserMessageShown(text))
        self.session.apply(CallsRecalled(task_id, turn.calls))
        for answer in turn.answers:
            self.screen.show(TextAdded(task_id, answer.text))
        self.screen.show(PhaseChanged(task_id, turn.status.phase, turn.status.text if not turn.answers else ""))
