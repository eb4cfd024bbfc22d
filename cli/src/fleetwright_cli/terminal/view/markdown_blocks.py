"""Splits streamed Markdown at the ends of top-level blocks. Pure.

A block can be printed once the next block begins, because scrollback cannot be changed later. A long code block is
printed in pieces, each with fences of its own.
"""

import re
from typing import Final

_FENCE: Final = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^`]*)$")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_PIECE: Final = 30
"""The number of lines after which an unfinished code block is printed."""


def take_blocks(text: str) -> tuple[str, str]:
    """Return the Markdown that can be printed, and the rest that is unfinished."""
    fence = ""
    at = done = 0
    opened = opened_lines = 0
    listed = False
    blank = False
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        found = _FENCE.match(line.rstrip("\n"))
        if fence:
            opened_lines += 1
            if found and found["mark"].startswith(fence) and not found["info"].strip():
                fence = ""
                done = at + len(line)
        elif found:
            if blank:
                done = at
            fence, opened, opened_lines = found["mark"], at, 0
        elif not line.strip():
            blank = True
        elif blank and _begins_block(line, listed=listed):
            done = at
        if line.strip():
            blank = False
            listed = not fence and (_ITEM.match(line) is not None or (listed and line[0] == " "))
        at += len(line)
    if not fence and blank and _begins_block(text[at:], listed=listed):
        done = at
    if fence and opened >= done and opened_lines >= _PIECE:
        return _cut_fence(text, opened, at, fence)
    return text[:done], text[done:]


def _begins_block(line: str, *, listed: bool) -> bool:
    """Return whether the line after a blank line begins another top-level block."""
    if not line.strip():
        return False
    return not (listed and (line[0] in " \t" or _ITEM.match(line)))


def _cut_fence(text: str, opened: int, at: int, fence: str) -> tuple[str, str]:
    """Close an unfinished code block at the last whole line, and reopen it in the rest."""
    head = text[opened : text.index("\n", opened) + 1]
    return f"{text[:at]}{fence}\n", f"{head}{text[at:]}"


def tail(text: str, limit: int) -> str:
    """Return the end of unfinished Markdown, with its code fence reopened if the cut removes it."""
    if len(text) <= limit:
        return text
    cut = text.find("\n", len(text) - limit)
    cut = len(text) - limit if cut < 0 else cut + 1
    fence = ""
    head = ""
    for line in text[:cut].splitlines():
        found = _FENCE.match(line)
        if fence and found and found["mark"].startswith(fence) and not found["info"].strip():
            fence = ""
        elif not fence and found:
            fence, head = found["mark"], line
    return f"{head}\n{text[cut:]}" if fence else text[cut:]
