"""The chat without a live region, for screen readers, dumb terminals and pipes: whole blocks and whole lines."""

import asyncio
import contextlib
import signal
import termios
from collections.abc import AsyncIterator, Sequence
from typing import Final, TextIO

from fleetwright_cli.safe_text import one_line, safe_text
from fleetwright_cli.terminal.model.changes import (
    AnswerReplaced,
    AskClosed,
    AskOpened,
    Change,
    ConnectionChanged,
    FileReceived,
    NoteShown,
    PhaseChanged,
    SendRefused,
    TextAdded,
    ToolChanged,
    UserMessageShown,
)
from fleetwright_cli.terminal.model.values import ENDED, PendingAsk, TaskPhase
from fleetwright_cli.terminal.view.chat_screen import ChatActions
from fleetwright_cli.terminal.view.panel import ask_lines

_WIDTH: Final = 200
_KEYS: Final = frozenset("yand")
_APPROVING: Final = frozenset("ya")
_PIECE: Final = 65_536


class PlainChat:
    """Reads lines, and writes "You:" and "Agent:". Nothing that is written changes later."""

    def __init__(self, stdin: TextIO, stdout: TextIO) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._answer = ""
        self._log: list[str] = []
        self._left = asyncio.Event()
        self._settled = asyncio.Event()
        self._reader = asyncio.StreamReader()
        self._prompted: PendingAsk | None = None
        """The approval of the newest prompt. Only this one takes keys."""

    async def run(self, actions: ChatActions) -> None:
        """Read lines until the end of the input or /quit."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(signal.SIGINT, self._interrupt, actions)
        await self._prompt(actions)
        async for line in self._lines():
            await self._handle(actions, line)
            if self._left.is_set():
                return
            await self._prompt(actions)

    def show(self, change: Change) -> None:
        match change:
            case TextAdded(_, text):
                self._answer += safe_text(text)
            case AnswerReplaced():
                self._answer = ""
            case UserMessageShown(text):
                self._log.append(f"> {text}\n\n")
            case ToolChanged(card) if card.seconds is not None:
                outcome = "outcome unknown" if card.ok is None else f"{card.characters} characters"
                outcome = one_line(card.result, 80) if card.ok is False else outcome
                self._say(f"Tool {card.number}: {one_line(card.name, 60)} {one_line(card.arguments, 80)}, {outcome}.")
            case FileReceived(file):
                self._say(f"File: {one_line(file.name, 80)}, {file.size} bytes.")
            case AskOpened(ask):
                self._flush()
                self._say(ask.prompt)
                self._settled.set()
            case AskClosed(ask, summary):
                self._say(f"{one_line(ask.title or ask.tool or ask.kind, 60)}: {summary}.")
            case NoteShown(text):
                self._say(one_line(text, 300))
            case ConnectionChanged(connected, reason):
                self._say("Connected again." if connected else f"Connection lost: {reason}.")
            case SendRefused(_, reason, sent):
                self._flush()
                self._say(f"{'Task not followed any more' if sent else 'Not sent'}: {reason}.")
                self._settled.set()
            case PhaseChanged(_, phase, text) if phase in ENDED:
                self._flush()
                if phase is not TaskPhase.COMPLETED:
                    self._say(f"Task {phase.value}: {one_line(text, 500)}")
                self._settled.set()

    def note(self, text: str, *, bad: bool = False) -> None:
        self._say(f"Error: {text}" if bad else text)

    def open_text(self, title: str, text: str) -> None:
        self._say(f"{one_line(title, 100)}\n{text}")

    async def pick(self, title: str, rows: Sequence[str]) -> int | None:
        """Write the rows with their numbers. The user continues with a command that names one."""
        self._say("\n".join([f"{title}:", *(f"{number:>3}  {row}" for number, row in enumerate(rows, start=1))]))
        return None

    def copy(self, text: str) -> None:
        """A terminal without escape sequences has no clipboard, so the text is written again."""
        self._say(text)

    def export(self) -> str:
        return "".join(self._log)

    def last_answer(self) -> str:
        return self._log[-1] if self._log else ""

    def leave(self) -> None:
        self._left.set()

    async def _handle(self, actions: ChatActions, line: str) -> None:
        """Handle a line, and wait until the agent has answered or asks."""
        self._settled.clear()
        ask = next(iter(actions.state.asks), None)
        key = line.strip().lower()
        if ask is not None and ask.is_approval and actions.form is None and key in _KEYS:
            waits = self._decide(actions, ask, key)
        else:
            before = actions.state
            await actions.submit(line)
            waits = actions.state.busy and actions.state is not before
        if waits and not self._left.is_set():
            await self._settled.wait()

    def _decide(self, actions: ChatActions, ask: PendingAsk, key: str) -> bool:
        """Decide an approval. Return whether the agent continues."""
        if ask != self._prompted:
            self._say("Another call waits now.")
            return False
        if key in _APPROVING and not self._stdin.isatty():
            self._say("Not approved: standard input is not a terminal. Use `fleetwright run --approve FILE`.")
            return False
        actions.decide(ask, key)
        return ask not in actions.state.asks

    def _interrupt(self, actions: ChatActions) -> None:
        if actions.state.busy:
            self._cancelling = asyncio.ensure_future(actions.cancel())
        else:
            self._say("Leave with Ctrl-D or /quit.")

    async def _prompt(self, actions: ChatActions) -> None:
        asks: tuple[PendingAsk, ...] = actions.state.asks
        self._prompted = asks[0] if asks and asks[0].is_approval and actions.form is None else None
        if self._prompted is not None and self._stdin.isatty():
            await self._discard()
        for line in ask_lines(asks, 0, actions.form, _WIDTH)[1 if asks and actions.form is None else 0 :]:
            self._say(line.strip())
        self._stdout.write("You: ")
        self._stdout.flush()

    async def _discard(self) -> None:
        """Discard what was typed before the prompt, because it cannot be meant for the approval."""
        termios.tcflush(self._stdin, termios.TCIFLUSH)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                while await self._reader.read(_PIECE):
                    pass

    def _flush(self) -> None:
        answer, self._answer = self._answer.strip(), ""
        if answer:
            self._log.append(f"{answer}\n\n")
            self._say(f"Agent: {answer}")

    def _say(self, text: str) -> None:
        self._stdout.write(safe_text(text) + "\n")
        self._stdout.flush()

    async def _lines(self) -> AsyncIterator[str]:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._reader), self._stdin)
        try:
            while line := await self._reader.readline():
                yield line.decode(errors="replace").rstrip("\r\n")
        finally:
            transport.close()
