"""Matches paths and commands with the patterns of an approval policy. Pure."""

import posixpath
import re
import shlex
from functools import lru_cache
from typing import Final

_WORKSPACE: Final = "/workspace/"
_OPERATORS: Final = frozenset(";&|<>(){}[]*?~#!$`\\\n\r\0")
"""Characters with which a shell runs more than one command, redirects, or expands words."""
_IN_DOUBLE: Final = frozenset("$`\\!\n\r\0")
"""Those that a shell interprets within double quotes too."""
_IN_SINGLE: Final = frozenset("\n\r\0")


@lru_cache(maxsize=256)
def _expression(pattern: str, *, wide: bool = False) -> re.Pattern[str]:
    """Compile a pattern: `**` matches anything, `*` and `?` match within one segment of a path.

    Args: with `wide`, `*` and `?` match `/` too.
    """
    pieces = {"**/": "(?:.*/)?", "**": ".*", "*": ".*" if wide else "[^/]*", "?": "." if wide else "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.compile("".join(pieces.get(part, re.escape(part)) for part in parts), re.DOTALL)


def matches_path(pattern: str, path: str, *, wide: bool = False) -> bool:
    """Return whether a path matches. A path that leaves its folder with `..` matches no pattern.

    Agents may name a file of a workspace relative to it, or as `/workspace/…`. A relative pattern matches both.

    Args: with `wide`, the path may contain `..` within the workspace. It is removed first.
    """
    normal = posixpath.normpath(path)
    if not pattern.startswith("/"):
        normal = normal.removeprefix(_WORKSPACE)
    if "\0" in path or normal == ".." or normal.startswith("../") or (normal[:1] == "/" != pattern[:1]):
        return False
    return (wide or ".." not in path.split("/")) and _expression(pattern).fullmatch(normal) is not None


def matches_command(pattern: str, command: str, *, wide: bool = False) -> bool:
    """Return whether a command matches, word by word. `*` as the last word matches any further words.

    A command that the shell would expand or split matches only a pattern that is equal to it.

    Args: `wide` has the meaning of `matches_text`.
    """
    if pattern == command:
        return True
    if is_expanded(command):
        return False
    try:
        wanted, words = shlex.split(pattern), shlex.split(command)
    except ValueError:
        return False
    if wanted and wanted[-1] == "*":
        wanted = wanted[:-1]
        words, further = words[: len(wanted)], words[len(wanted) :]
        if not wide and any(map(_leaves, further)):
            return False
    return len(wanted) == len(words) and all(
        matches_text(each, word, wide=wide) for each, word in zip(wanted, words, strict=True)
    )


def is_expanded(command: str) -> bool:
    """Return whether a shell would do more with a command than split it into its words and remove the quotes."""
    quote = ""
    for character in command:
        unsafe = {"": _OPERATORS, "'": _IN_SINGLE, '"': _IN_DOUBLE}[quote]
        if character in unsafe:
            return True
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
    return bool(quote)


def matches_text(pattern: str, value: object, *, wide: bool = False) -> bool:
    """Return whether an argument or a word matches. Other values than texts are compared as JSON would write them.

    A text with `..` as a component of a path matches only a pattern that is equal to it.

    Args: with `wide`, wildcards match such a text, and `/`. A rule that declines must not miss a call.
    """
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    if pattern == text:
        return True
    return (wide or not _leaves(text)) and _expression(pattern, wide=wide).fullmatch(text) is not None


def _leaves(word: str) -> bool:
    """Return whether a word has `..` as a component of a path, also after the name of an option."""
    return ".." in re.split(r"[/=:,\s]", word)
