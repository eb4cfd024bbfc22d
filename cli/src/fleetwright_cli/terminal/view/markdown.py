"""Markdown for the terminal: headings on the left, links as text, code in the terminal's own colours."""

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement


class _LeftHeading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _ChatMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _LeftHeading}


def chat_markdown(text: str, code_theme: str) -> Markdown:
    """Return the Markdown as an object that rich renders. Links are written as text, without escape sequences."""
    return _ChatMarkdown(text, code_theme=code_theme, hyperlinks=False, inline_code_theme=None)
