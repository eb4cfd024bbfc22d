"""Changes of indentation: finds how the indentation of given lines became that of a file, and applies it to others.

A change is a conversion between tabs and spaces followed by a prefix that is added to or removed from every line. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

_WIDTHS = (4, 2, 8, 3)


class IndentChange(NamedTuple):
    conversion: str
    """`none`, `to tabs` or `to spaces`."""
    width: int
    added: str
    removed: str

    def apply(self, line: str) -> str | None:
        """Return the line with its new indentation; None if the change is not possible for this line."""
        content = line.lstrip(" \t")
        if not content.strip():
            return line.strip(" \t")
        indent = convert(line[: len(line) - len(content)], self.conversion, self.width)
        if indent is None or not indent.startswith(self.removed):
            return None
        rest = indent[len(self.removed) :]
        if self.added and rest and ("\t" in self.added) != ("\t" in rest):
            return None  # tabs and spaces mixed in one indentation are never intended
        return self.added + rest + content


def convert(indent: str, conversion: str, width: int) -> str | None:
    """Return the converted indentation; None if it is not a whole number of steps."""
    if conversion == "none":
        return indent
    if conversion == "to spaces":
        return None if indent.strip("\t") else " " * (width * len(indent))
    if indent.strip(" ") or len(indent) % width:
        return None
    return "\t" * (len(indent) // width)


def changes(given: Sequence[str], found: Sequence[str]) -> list[IndentChange]:
    """Return the plausible changes that turn the indentation of every given line into that of the found line.

    A change without conversion excludes the others. A change that removes a prefix is plausible if there is no other.
    Blank lines have no indentation.
    """
    pairs = [(_indent(one), _indent(other)) for one, other in zip(given, found) if one.strip()]
    unconverted = _change("none", 1, pairs)
    if unconverted:
        return [unconverted]
    tried = [_change(conversion, width, pairs) for conversion in ("to tabs", "to spaces") for width in _WIDTHS]
    possible = [change for change in tried if change]
    return [change for change in possible if not change.removed] or possible


def reindented(lines: Sequence[str], possible: Iterable[IndentChange]) -> list[str] | None:
    """Return the lines after the change; None if a change is impossible or two possible changes disagree."""
    results: set[tuple[str, ...]] = set()
    for change in possible:
        changed = [change.apply(line) for line in lines]
        known = [line for line in changed if line is not None]
        if len(known) == len(lines):
            results.add(tuple(known))
    return list(results.pop()) if len(results) == 1 else None


def _change(conversion: str, width: int, pairs: Sequence[tuple[str, str]]) -> IndentChange | None:
    differences: set[tuple[str, str]] = set()
    for given, found in pairs:
        converted = convert(given, conversion, width)
        if converted is None:
            return None
        if found.endswith(converted):
            differences.add((found[: len(found) - len(converted)], ""))
        elif converted.endswith(found):
            differences.add(("", converted[: len(converted) - len(found)]))
        else:
            return None
    if len(differences) != 1:
        return None
    return IndentChange(conversion, width, *differences.pop())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
