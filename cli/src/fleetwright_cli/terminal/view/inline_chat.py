"""The inline terminal: finished text goes to the scrollback, and a live region of at most six rows is repainted.

The live region has the unfinished text, the open ask, the input and the status. It is painted at most ten times a
second while text streams. Keys are painted at once.
"""

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.layout import Layout
from prompt_toolkit.output import ColorDepth

from fleetwright_cli.safe_text import safe_text
from fleetwright_cli.terminal.model.changes import AskOpened, Change
from fleetwright_cli.terminal.model.values import PendingAsk
from fleetwright_cli.terminal.view.ask_focus import AskFocus
from fleetwright_cli.terminal.view.chat_keys import chat_keys
from fleetwright_cli.terminal.view.chat_screen import ChatActions
from fleetwright_cli.terminal.view.live_rows import ROWS, LiveRows
from fleetwright_cli.terminal.view.terminal_output import FrameOutput
from fleetwright_cli.terminal.view.transcript import Transcript
from fleetwright_cli.terminal.view.viewer import picker, viewer

_PAINT_SECONDS: Final = 0.1
_LEAVE_SECONDS: Final = 2.0
_KEPT_LINES: Final = 400
T = TypeVar("T")


class InlineChat:
    """The screen. Set `actions` once the agent is connected; inputs before that wait."""

    def __init__(
        self,
        title: str,
        transcript: Transcript,
        *,
        output: FrameOutput,
        input: Input,  # noqa: A002 - the library's name
        history: History,
        completer: Completer,
        vi: bool = False,
        colours: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.title = title
        self._transcript = transcript
        self._output = output
        self._input = input
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self.actions: ChatActions | None = None
        self._focus = AskFocus(self._clock)
        self.notice = ""
        self._leaving_at = float("-inf")
        self._pending: list[str] = []
        self._kept: list[str] = []
        self._early: list[str] = []
        self._jobs: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._painted = float("-inf")
        self._viewing = False
        self.buffer = Buffer(
            multiline=True, history=history, completer=completer, complete_while_typing=False,
            enable_history_search=True,
        )  # fmt: skip
        self.app: Application[None] = Application(
            layout=Layout(LiveRows(self, transcript, output).container()),
            key_bindings=chat_keys(self),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            input=input,
            output=output,
            full_screen=False,
            mouse_support=False,
            erase_when_done=True,
            color_depth=None if colours else ColorDepth.DEPTH_1_BIT,
        )
        self.app.after_render += self._rendered

    async def run(self) -> None:
        """Run until the user leaves."""
        try:
            await self.app.run_async()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            for job in self._jobs:
                job.cancel()
            rest = "".join([*self._pending, self._transcript.flush()])
            self._output.write_raw(rest.replace("\n", "\r\n"))
            self._output.release()

    # Calls of the controller.

    def show(self, change: Change) -> None:
        self._transcript.width = self._output.get_size().columns
        if isinstance(change, AskOpened):
            self._focus.opened(change.ask)
        if text := self._transcript.add(change):
            self._print(text)
        self.paint_soon()

    def note(self, text: str, *, bad: bool = False) -> None:
        self._print(self._transcript.renderer.styled("bad" if bad else "note", safe_text(text)) + "\n")
        self.paint_soon()

    def open_text(self, title: str, text: str) -> None:
        self.start(self._view(title, text))

    async def pick(self, title: str, rows: Sequence[str]) -> int | None:
        return await self._shown(picker(title, rows, input=self._input, output=self._output))

    def copy(self, text: str) -> None:
        """Send the text to the clipboard of the terminal (OSC 52)."""
        self._output.write_raw(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
        self._output.flush()

    def export(self) -> str:
        return self._transcript.text()

    def last_answer(self) -> str:
        return self._transcript.last_answer()

    def leave(self) -> None:
        if self.app.is_running and not self.app.is_done:
            self.app.exit()

    # Calls of the keys.

    def connected(self, actions: ChatActions) -> None:
        """Use the actions from now on, and submit the inputs that have waited."""
        self.actions = actions
        early, self._early = self._early, []
        for text in early:
            self.start(actions.submit(text))
        self.paint_soon()

    def submit(self) -> None:
        text = self.buffer.text
        if not text.strip():
            return
        self.buffer.append_to_history()
        self.buffer.reset()
        if self.actions is None:
            self._early.append(text)
            self.notice = "The message is sent once the agent is connected."
            return
        self.notice = ""
        self.start(self.actions.submit(text))

    def interrupt(self) -> None:
        """Clear the input; or cancel the task; or leave, when pressed twice."""
        if self.buffer.text:
            self.buffer.reset()
        elif self.actions is not None and self.actions.state.busy:
            self.notice = "The task is being cancelled."
            self.start(self._cancel(self.actions))
        elif self._clock() - self._leaving_at <= _LEAVE_SECONDS:
            self.leave()
        else:
            self._leaving_at = self._clock()
            self.notice = "Press Ctrl-C again to leave."
            asyncio.get_running_loop().call_later(_LEAVE_SECONDS, self._clear_notice)

    @property
    def chosen(self) -> int:
        """The place of the ask that the panel shows."""
        return 0 if self.actions is None else self._focus.index(self.actions.state.asks)

    def choose(self, number: int) -> bool:
        """Show another of several asks. Return whether there is one with this number."""
        asks = () if self.actions is None else self.actions.state.asks
        if not 1 <= number <= len(asks) or len(asks) == 1:
            return False
        self._focus.choose(asks[number - 1])
        return True

    @property
    def approval(self) -> PendingAsk | None:
        """The approval that the keys y, a, n and d decide now, or None."""
        if self.actions is None or self.buffer.text:
            return None
        ask = self._focus.ready(self.actions.state.asks)
        return ask if ask is not None and ask.is_approval else None

    def repaint(self) -> None:
        """Clear the screen, and write the newest text again. A resize may have left old rows."""
        size = self._output.get_size()
        self.app.renderer.clear()
        lines = "".join(self._kept).splitlines()[-max(0, size.rows - ROWS) :]
        self._pending.insert(0, "".join(f"{line}\n" for line in lines))
        self._kept.clear()
        self._paint()

    def start(self, coroutine: Any) -> None:
        job = asyncio.get_running_loop().create_task(coroutine)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        job.add_done_callback(lambda _: self.paint_soon())

    # Painting.

    def paint_soon(self) -> None:
        """Paint now, or as soon as a tenth of a second has passed since the last time."""
        if self._timer is None and self.app.is_running:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._painted + _PAINT_SECONDS - loop.time())
            self._timer = loop.call_later(wait, self._paint)

    def _paint(self) -> None:
        self._timer = None
        if self._viewing or not self.app.is_running:
            return
        self._painted = asyncio.get_running_loop().time()
        self._transcript.refresh()
        text, self._pending = "".join(self._pending), []
        if text:
            self._output.held = True
            self.app.renderer.erase()
            self._output.write_raw(text.replace("\n", "\r\n"))
            self._keep(text)
        self.app.invalidate()

    def _rendered(self, _: object) -> None:
        self._output.release()
        actions = self.actions
        self._focus.painted(() if actions is None or actions.form is not None else actions.state.asks)

    def _print(self, text: str) -> None:
        self._pending.append(text)

    def _keep(self, text: str) -> None:
        self._kept += text.splitlines(keepends=True)
        del self._kept[:-_KEPT_LINES]

    async def _cancel(self, actions: ChatActions) -> None:
        await actions.cancel()
        self.notice = ""

    def _clear_notice(self) -> None:
        self.notice = ""
        self.paint_soon()

    async def _view(self, title: str, text: str) -> None:
        await self._shown(viewer(title, text, input=self._input, output=self._output))

    async def _shown(self, application: Application[T]) -> T | None:
        """Run an application on the alternate screen. New text of the conversation waits meanwhile."""
        if self._viewing:
            return None
        self._viewing = True
        try:
            async with in_terminal():
                return await application.run_async()
        finally:
            self._viewing = False
            self.paint_soon()
