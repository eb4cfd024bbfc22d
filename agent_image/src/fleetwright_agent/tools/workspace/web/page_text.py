"""Turns an HTML page into plain text or Markdown. Pure.

Scripts, styles and hidden templates are left out. Only `http` and `https` links are kept.
"""

import re
from html.parser import HTMLParser
from typing import Final

_DROPPED: Final = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object"})
_BLOCKS: Final = frozenset(
    {
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "tr"),
        *("blockquote", "form", "fieldset", "figure", "dl", "dt", "dd", "hr", "body", "details", "summary"),
    }
)
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}
_MARKS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}
_SPACES: Final = re.compile(r"[ \t\r\f\v\n\u00a0]+")
_EMPTY_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


def page_text(html: str, *, markdown: bool) -> str:
    """Return the text of a page. Args: `markdown` keeps headings, lists, emphasis and links."""
    reader = _PageReader(markdown=markdown)
    reader.feed(html)
    reader.close()
    return _EMPTY_LINES.sub("\n\n", "".join(reader.pieces)).strip()


class _PageReader(HTMLParser):
    def __init__(self, *, markdown: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._markdown = markdown
        self._dropped: list[str] = []
        self._links: list[str] = []
        self._preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._dropped or tag in _DROPPED:
            # `head` may lack its end tag; the page then begins with `body`.
            if tag == "body" and self._dropped == ["head"]:
                self._dropped = []
            elif tag in _DROPPED:
                self._dropped.append(tag)
            return
        if tag == "pre":
            self._preformatted += 1
            self._add("\n\n```\n" if self._markdown else "\n\n")
        elif tag == "br":
            self._add("\n")
        elif tag == "li":
            self._add("\n- " if self._markdown else "\n")
        elif tag in _HEADINGS:
            self._add(f"\n\n{_HEADINGS[tag]} " if self._markdown else "\n\n")
        elif tag in _BLOCKS:
            self._add("\n\n" if tag != "tr" else "\n")
        elif tag in ("td", "th"):
            self._add(" | " if self._markdown else "\t")
        elif self._markdown:
            self._inline_start(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            if tag in self._dropped:
                del self._dropped[self._dropped.index(tag) :]
            return
        if tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
            self._add("\n```\n\n" if self._markdown else "\n\n")
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._add("\n\n" if tag != "tr" else "\n")
        elif self._markdown and tag == "a" and self._links:
            link = self._links.pop()
            self._add(f"]({link})" if link else "")
        elif self._markdown and tag in _MARKS and not self._preformatted:
            self._add(_MARKS[tag])

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self._add(data if self._preformatted else _SPACES.sub(" ", data))

    def _inline_start(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            link = dict(attrs).get("href") or ""
            is_web = link.startswith(("https://", "http://")) and " " not in link
            self._links.append(link if is_web else "")
            self._add("[" if is_web else "")
        elif tag in _MARKS and not self._preformatted:
            self._add(_MARKS[tag])

    def _add(self, text: str) -> None:
        if text == " " and self.pieces and self.pieces[-1].endswith(("\n", " ")):
            return
        self.pieces.append(text)
