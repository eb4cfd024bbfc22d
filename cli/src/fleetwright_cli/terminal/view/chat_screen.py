"""The ports between a screen and its controller."""

from collections.abc import Sequence
from typing import Protocol

from fleetwright_cli.terminal.model.changes import Change
from fleetwright_cli.terminal.model.forms import FormProgress
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.values import PendingAsk


class ChatScreen(Protocol):
    def show(self, change: Change) -> None: ...

    def note(self, text: str, *, bad: bool = False) -> None: ...

    def open_text(self, title: str, text: str) -> None:
        """Show a long text, for example in a viewer."""
        ...

    async def pick(self, title: str, rows: Sequence[str]) -> int | None:
        """Let the user choose a row, and return its index, or None. A screen without a picker only shows the rows."""
        ...

    def copy(self, text: str) -> None: ...

    def export(self) -> str:
        """Return the conversation as Markdown."""
        ...

    def last_answer(self) -> str: ...

    def leave(self) -> None: ...


class ChatActions(Protocol):
    """The requests of a screen to its controller."""

    @property
    def state(self) -> ChatState: ...

    @property
    def form(self) -> FormProgress | None: ...

    async def submit(self, text: str) -> None: ...

    def decide(self, ask: PendingAsk, key: str) -> None: ...

    async def cancel(self) -> None: ...

    def open_tool(self, number: int | None = None) -> None: ...
