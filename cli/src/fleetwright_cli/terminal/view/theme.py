"""Colours. Every style is one of the terminal's own sixteen colours, so it fits the user's palette."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ChatTheme:
    """The styles of rich, and the theme for code."""

    user: str
    note: str
    tool: str
    good: str
    bad: str
    ask: str
    code: str


THEMES: Final[Mapping[str, ChatTheme]] = {
    "dark": ChatTheme("bold cyan", "bright_black", "green", "green", "red", "bold yellow", "ansi_dark"),
    "light": ChatTheme("bold blue", "bright_black", "green", "green", "red", "bold magenta", "ansi_light"),
    "mono": ChatTheme("bold", "", "", "", "bold", "bold", "bw"),
}


def theme_of(name: str, environ: Mapping[str, str]) -> ChatTheme:
    """Return a theme. With NO_COLOR, no theme has colours."""
    return THEMES["mono"] if environ.get("NO_COLOR") else THEMES[name]
