"""Turns changes into text for the scrollback, and keeps the unfinished text for the live region."""

from dataclasses import dataclass, field
from typing import Final

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
    TodosChanged,
    ToolChanged,
    UserMessageShown,
)
from fleetwright_cli.terminal.model.todos import is_done
from fleetwright_cli.terminal.model.values import ENDED, PendingAsk, ReceivedFile, TaskPhase, TodoItem, ToolCard
from fleetwright_cli.terminal.view.markdown_blocks import tail, take_blocks
from fleetwright_cli.terminal.view.rendering import Renderer

_LIVE_CHARACTERS: Final = 2_000
_PREVIEW_LINES: Final = 20
_PANEL_MARGIN: Final = 30
"""The columns of the panel that the arguments of an approval cannot use."""
_LONGEST_LOG: Final = 2_000_000
_ENDINGS: Final = {
    TaskPhase.FAILED: "failed",
    TaskPhase.CANCELED: "cancelled",
    TaskPhase.REJECTED: "rejected",
}


@dataclass(slots=True)
class Transcript:
    """The text of the conversation. `width` is the width of the terminal, which the caller updates."""

    renderer: Renderer
    width: int = 80
    _open: str = ""
    _previewed: str = ""
    """The newest preview of an approval. The agent sends the same diff again after the call."""
    _printed: bool = False
    """True if text of the current answer is in the scrollback."""
    _live: list[str] = field(default_factory=list)
    _live_running: list[str] = field(default_factory=list)
    _live_width: int = 0
    _running: dict[str, ToolCard] = field(default_factory=dict)
    _log: list[str] = field(default_factory=list)
    _logged: int = 0

    def add(self, change: Change) -> str:
        """Return the text that the change adds to the scrollback."""
        match change:
            case TextAdded(_, text):
                self._open += safe_text(text)
                return self._finished()
            case AnswerReplaced():
                replaced, self._open = self._printed, ""
                return self._note("The agent replaced its answer. The new text follows.") if replaced else ""
            case UserMessageShown(text):
                self._remember(f"> {text}\n\n")
                return (self._flush() or "\n") + self._prefixed("> ", text) + "\n"
            case ToolChanged(card):
                return self._tool(card)
            case FileReceived(file):
                return self._flush() + self._file(file)
            case AskOpened(ask):
                return self._flush() + self._ask(ask)
            case AskClosed(ask, summary):
                subject = one_line(ask.title or ask.tool or ask.kind, 60)
                return self._note(f"{subject}: {summary}")
            case TodosChanged(todos):
                return self._flush() + self._todos(todos)
            case NoteShown(text):
                return self._flush() + self._note(one_line(text, 300))
            case SendRefused(text, reason, sent):
                head = "task not followed any more" if sent else "not sent"
                return self._flush() + self._bad(f"{head}: {reason}" + (f' ("{one_line(text, 60)}")' if text else ""))
            case ConnectionChanged(connected, reason):
                return self._note("connected again" if connected else f"connection lost: {reason}")
            case PhaseChanged(_, phase, text, truncated) if phase in ENDED:
                return self._ended(phase, text, truncated=truncated)
        return ""

    def live(self, rows: int) -> list[str]:
        """Return the last lines of the unfinished text and of running tools, with ANSI styles."""
        if rows <= 0:
            return []
        if self._live_width != self.width:
            self.refresh()
        running = self._live_running
        return [*self._live[-max(1, rows - len(running)) :], *running][-rows:]

    def refresh(self) -> None:
        """Render the unfinished text for `live`. A key between two frames is then shown without rendering again."""
        self._live_width = self.width
        self._live_running = [self._card_line(card) for card in list(self._running.values())[-2:]]
        self._live = []
        if self._open.strip():
            self._live = self.renderer.markdown(tail(self._open, _LIVE_CHARACTERS), self.width).splitlines()

    def text(self) -> str:
        """Return the conversation as Markdown, for an export."""
        return "".join(self._log)

    def last_answer(self) -> str:
        """Return the newest text of the agent since the user's last message."""
        at = next((i for i in range(len(self._log) - 1, -1, -1) if self._log[i].startswith("> ")), -1)
        return "".join(self._log[at + 1 :]).strip()

    def flush(self) -> str:
        """Return the unfinished text for the scrollback."""
        return self._flush()

    def _finished(self) -> str:
        done, self._open = take_blocks(self._open)
        return self._markdown(done)

    def _flush(self) -> str:
        text, self._open = self._open, ""
        return self._markdown(text)

    def _markdown(self, text: str) -> str:
        if not text.strip():
            return ""
        self._printed = True
        self._remember(text)
        return self.renderer.markdown(text, self.width) + "\n"

    def _tool(self, card: ToolCard) -> str:
        if card.ok is None and card.seconds is None:
            known = card.call_id in self._running
            self._running[card.call_id] = card
            return "" if known else self._flush()
        self._running.pop(card.call_id, None)
        self._remember(f"\n[{card.number}] {card.name} {one_line(card.arguments, 200)}\n\n")
        return self._flush() + self._card_line(card) + "\n"

    def _card_line(self, card: ToolCard) -> str:
        indent = "  " if card.parent else ""
        name = one_line(card.name, 40)
        number = f"[{card.number}]"
        if card.ok is None:
            outcome = "outcome unknown" if card.seconds is not None else one_line(card.output[-200:], 40) or "runs"
        else:
            outcome = f"{card.characters} characters" if card.ok else one_line(card.result, 40) or "failed"
        seconds = "" if not card.seconds else f"{card.seconds:.1f} s"
        rest = f" → {outcome}  {seconds}  {number}"
        room = max(8, self.width - len(indent) - 3 - len(name) - len(rest))
        arguments = one_line(card.arguments, min(60, room))
        mark = "○" if card.seconds is None else "●"
        style = "bad" if card.ok is False else "tool"
        head = self.renderer.styled(style, mark)
        return f"{indent}{head} {name} {arguments}{self.renderer.styled('note', rest)}"

    def _file(self, file: ReceivedFile) -> str:
        name = one_line(file.name, 80)
        head = self._note(f"file {name}, {file.size} bytes")
        if (
            not file.text
            or file.text.strip() == self._previewed
            or not (name.endswith((".diff", ".patch")) or "diff" in file.media_type)
        ):
            return head
        return head + self._preview(file.text)

    def _ask(self, ask: PendingAsk) -> str:
        if not ask.is_approval:
            return self.renderer.styled("ask", "? ") + safe_text(ask.prompt) + "\n"
        self._previewed = ask.detail.strip()
        fits = len(ask.title or ask.tool) + len(ask.detail) < self.width - _PANEL_MARGIN
        if "\n" not in ask.detail and fits:
            return ""
        return (
            self.renderer.styled("ask", f"? {one_line(ask.title or ask.tool, 100)}") + "\n" + self._preview(ask.detail)
        )

    def _preview(self, text: str) -> str:
        shown, left = self.renderer.verbatim(text, lines=_PREVIEW_LINES)
        return shown + (self._note(f"  … {left} more lines") if left else "")

    def _todos(self, todos: tuple[TodoItem, ...]) -> str:
        marks = {"in_progress": "▸", "cancelled": "✗"}
        lines = (
            f"  {'✓' if is_done(item) else marks.get(item.status, '·')} {one_line(item.text, self.width - 6)}\n"
            for item in todos
        )
        return "".join(self.renderer.styled("note", line) for line in lines)

    def _ended(self, phase: TaskPhase, text: str, *, truncated: bool) -> str:
        self._running.clear()
        shown = self._flush()
        self._printed = False
        self._remember("\n")
        if truncated:
            shown += self._note("The answer is truncated.")
        if phase in _ENDINGS:
            shown += self._bad(f"{_ENDINGS[phase]}{': ' if text else ''}{one_line(text, 500)}")
        return shown

    def _prefixed(self, prefix: str, text: str) -> str:
        lines = safe_text(text).splitlines() or [""]
        shown = [f"{prefix if at == 0 else '  '}{line}" for at, line in enumerate(lines)]
        return "".join(self.renderer.styled("user", line) + "\n" for line in shown)

    def _note(self, text: str) -> str:
        return self.renderer.styled("note", safe_text(text)) + "\n"

    def _bad(self, text: str) -> str:
        return self.renderer.styled("bad", safe_text(text)) + "\n"

    def _remember(self, text: str) -> None:
        """Keep the text for an export, within a limit."""
        self._logged += len(text)
        self._log.append(text)
        while self._logged > _LONGEST_LOG and len(self._log) > 1:
            self._logged -= len(self._log.pop(0))
