"""Renders text and Markdown to lines with ANSI styles, for a given width.

Text of an agent has no control characters, so styles come from this module only.
"""

import re
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

from fleetwright_cli.safe_text import safe_text
from fleetwright_cli.terminal.view.theme import ChatTheme

if TYPE_CHECKING:
    from rich.console import Console

_PADDING: Final = re.compile(r"(?<! ) +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_EMPTY_STYLE: Final = re.compile(r"\x1b\[0m\x1b\[0m")
_DIFF_LINES: Final = {"+": "good", "-": "bad", "@": "note"}


class Renderer:
    """Renders for one terminal. Importing rich takes a tenth of a second, so that happens at the first use."""

    def __init__(self, theme: ChatTheme, *, colours: str | None) -> None:
        """Args: `colours` is the colour system of rich, or None for a terminal without colours."""
        self.theme = theme
        self._colours = colours

    def markdown(self, text: str, width: int) -> str:
        from fleetwright_cli.terminal.view.markdown import chat_markdown

        rendered = self._render(chat_markdown(safe_text(text), self.theme.code), width)
        return rendered.strip("\n") + "\n"

    def styled(self, style: str, text: str) -> str:
        """Return text in a style, without wrapping. Args: `style` is the name of a field of the theme."""
        return self._styled(getattr(self.theme, style), text)

    def verbatim(self, text: str, *, lines: int) -> tuple[str, int]:
        """Return the first lines of a preview or a diff, and how many lines are left out."""
        found = safe_text(text).expandtabs(4).splitlines()
        shown = [
            self.styled(_DIFF_LINES.get(line[:1], ""), line) if line[:1] in _DIFF_LINES else line for line in found
        ]
        return "".join(f"  {line}\n" for line in shown[:lines]), max(0, len(found) - lines)

    def _styled(self, style: str, text: str) -> str:
        if not style:
            return text
        return self._style(style).render(text, color_system=self._colour_system) if text else text

    def _style(self, style: str) -> Any:
        from rich.style import Style

        return Style.parse(style)

    @cached_property
    def _colour_system(self) -> Any:
        from rich.color import ColorSystem

        return ColorSystem.STANDARD if self._colours is None else ColorSystem[self._colours.upper()]

    def _render(self, renderable: Any, width: int) -> str:
        console = self._console(width)
        console.print(renderable)
        file = console.file
        if not isinstance(file, StringIO):
            raise TypeError("the console writes to memory")
        return _EMPTY_STYLE.sub("\x1b[0m", _PADDING.sub(r"\1", file.getvalue()))

    def _console(self, width: int) -> "Console":
        from rich.console import Console

        return Console(
            file=StringIO(),
            force_terminal=True,
            color_system=self._colours,  # type: ignore[arg-type] # one of the names that rich knows
            no_color=self._colours is None,
            width=max(20, width),
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
