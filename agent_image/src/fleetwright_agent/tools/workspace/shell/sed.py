"""Decides whether a script of sed only prints and replaces. Pure.

The commands `p` and `q`, and `s` without the flags `w` and `e`, are allowed.
"""

import re
from collections.abc import Sequence
from typing import Final

from fleetwright_agent.tools.workspace.shell.options import ApprovalRequired, OptionRule, parse

_RULE: Final = OptionRule(
    short="nErsz",
    short_values="e",
    long=frozenset({"quiet", "silent", "regexp-extended", "separate", "null-data"}),
    long_values=frozenset({"expression"}),
)
_ADDRESS: Final = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\[\]]|\\[^\n])*/I?)"
_PREFIX: Final = re.compile(rf"\s*(?:{_ADDRESS}(?:,(?:{_ADDRESS}|\+\d+|~\d+))?)?\s*!?\s*")
_DELIMITERS: Final = frozenset("/|,#:@%")
_ESCAPED: Final = re.compile(r"\\.")
_SET: Final = re.compile(r"\[\^?[A-Za-z0-9 _.-]+\]")
_FLAGS: Final = re.compile(r"[gpIiMm0-9]*")
_PARTS: Final = 2
"""A substitution has a pattern and a replacement."""


def sed_paths(arguments: Sequence[str]) -> list[str]:
    """Return the paths that sed reads. Raises: ApprovalRequired."""
    parsed = parse(_RULE, arguments)
    scripts, files = parsed.values("e", "expression"), parsed.operands
    if not scripts:
        scripts, files = files[:1], files[1:]
    if not scripts:
        raise ApprovalRequired("it has no script")
    for script in scripts:
        _check(script)
    return [file for file in files if file != "-"]


def _check(script: str) -> None:
    """Raises: ApprovalRequired: the script has a command that is not known to be harmless."""
    at = 0
    while at < len(script):
        prefix = _PREFIX.match(script, at)
        at = prefix.end() if prefix else at
        command = script[at : at + 1]
        if command == "s":
            at = _after_substitution(script, at + 1)
        elif command == "p" or not command:
            at += 1
        elif command == "q":
            at += 1
            while script[at : at + 1].isdigit():
                at += 1
        else:
            raise ApprovalRequired(f"its script has the command {command}")
        while script[at : at + 1] == " ":
            at += 1
        if at < len(script) and script[at] != ";":
            raise ApprovalRequired("its script cannot be checked")
        at += 1


def _after_substitution(script: str, at: int) -> int:
    delimiter = script[at : at + 1]
    if delimiter not in _DELIMITERS or not delimiter:
        raise ApprovalRequired("its script cannot be checked")
    parts, start = [], at + 1
    for _ in range(_PARTS):
        end = start
        while end < len(script) and script[end] != delimiter:
            end += 2 if script[end] == "\\" else 1
        if end >= len(script):
            raise ApprovalRequired("its script cannot be checked")
        parts.append(script[start:end])
        start = end + 1
    # Programs disagree on the end of a pattern with a delimiter inside brackets, so only simple brackets are allowed.
    left = _SET.sub("", _ESCAPED.sub("", parts[0]))
    if "[" in left or "]" in left:
        raise ApprovalRequired("its script cannot be checked")
    flags = _FLAGS.match(script, start)
    return flags.end() if flags else start
