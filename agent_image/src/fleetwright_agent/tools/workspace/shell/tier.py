"""Decides for a shell command: it never runs, it runs without approval, or a person must approve it. Pure.

A command runs without approval only if a shell would run exactly its words, its program and each of its options are
known to read only, and all of its paths are in the workspace. The caller checks the paths, because only the workspace
knows where its links lead. Such a command then runs as a list of arguments, with a fixed PATH and without a shell.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fleetwright_agent.tools.workspace.shell.destructive import destruction
from fleetwright_agent.tools.workspace.shell.find import find_paths
from fleetwright_agent.tools.workspace.shell.git import ENVIRONMENT as GIT_ENVIRONMENT
from fleetwright_agent.tools.workspace.shell.git import git_command
from fleetwright_agent.tools.workspace.shell.options import ApprovalRequired, parse, read_paths
from fleetwright_agent.tools.workspace.shell.readers import EXTRA_ARGUMENTS, NO_OPTIONS, ONLY_WITH_OPTION, READERS
from fleetwright_agent.tools.workspace.shell.sed import sed_paths
from fleetwright_agent.tools.workspace.shell.words import ShellWord, UnreadableCommand, split_command

ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "RIPGREP_CONFIG_PATH": "",
    "GREP_OPTIONS": "",
    "LESSOPEN": "",
}


@dataclass(frozen=True, slots=True)
class ShellDeny:
    """The command never runs."""

    reason: str


@dataclass(frozen=True, slots=True)
class ShellAllow:
    """The command runs without approval if all of its paths are in the workspace and its check finds nothing."""

    argv: tuple[str, ...]
    paths: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    check: tuple[str, ...] = ()
    """A command that lists the keys of git's configuration; no key may be unsafe."""


@dataclass(frozen=True, slots=True)
class ShellAsk:
    """A person must approve the command."""

    reason: str


Tier = ShellDeny | ShellAllow | ShellAsk


def tier(command: str, allow: Sequence[str] = ()) -> Tier:
    """Args: `allow` are commands that run without approval; each one matches the first words of a command."""
    if why := destruction(command):
        return ShellDeny(why)
    try:
        argv = plain_words(command)
        if any(argv[: len(words)] == tuple(words) for words in map(str.split, allow)):
            return ShellAllow(argv)
        if "/" in argv[0]:
            raise ApprovalRequired("it names its program by a path")
        return _reader(argv)
    except (ApprovalRequired, UnreadableCommand) as error:
        return ShellAsk(str(error))


def unreadable(command: str) -> str:
    """Return why a command cannot be read, or an empty string."""
    try:
        split_command(command)
    except UnreadableCommand as error:
        return str(error)
    return ""


def grant_key(command: str) -> str:
    """Return what identifies a command for a grant: its words if it is plain, otherwise the exact text."""
    try:
        parsed = json.dumps(["words", *plain_words(command)])
    except (ApprovalRequired, UnreadableCommand):
        parsed = json.dumps(["text", command])
    return f"command:{hashlib.sha256(parsed.encode()).hexdigest()}"


def plain_words(command: str) -> tuple[str, ...]:
    """Return the words of a command that a shell would run unchanged. Raises: ApprovalRequired, UnreadableCommand."""
    if "\n" in command:
        raise ApprovalRequired("it has several lines")
    words: list[str] = []
    for token in split_command(command):
        if not isinstance(token, ShellWord):
            raise ApprovalRequired("it combines commands, redirects output or has a comment")
        if token.special:
            raise ApprovalRequired(f"it has {token.special}")
        words.append(token.text)
    if not words:
        raise ApprovalRequired("it is empty")
    if not words[0] or any(sign in words[0] for sign in "=!{}"):
        raise ApprovalRequired("it does not begin with the name of a program")
    return tuple(words)


def _reader(argv: tuple[str, ...]) -> ShellAllow:
    """Return the command as it runs. Raises: ApprovalRequired: it may do more than read."""
    name, arguments = argv[0], argv[1:]
    if name == "git":
        git = git_command(arguments)
        environment = {**ENVIRONMENT, **GIT_ENVIRONMENT}
        return ShellAllow(git.argv, git.paths, environment, git.check)
    paths = _special(name, arguments) if name in _SPECIAL else _listed(name, arguments)
    extra = EXTRA_ARGUMENTS.get(name, ())
    return ShellAllow((name, *extra, *arguments), tuple(paths), ENVIRONMENT)


def _listed(name: str, arguments: Sequence[str]) -> list[str]:
    rule = READERS.get(name)
    if rule is None:
        raise ApprovalRequired(f"{name} is not a command that only reads")
    if name in NO_OPTIONS:
        return []
    parsed = parse(rule, arguments)
    if name in ONLY_WITH_OPTION and not parsed.options:
        raise ApprovalRequired(f"{name} runs a program")
    return read_paths(rule, parsed)


def _special(name: str, arguments: Sequence[str]) -> list[str]:
    return _SPECIAL[name](arguments)


def _date_paths(arguments: Sequence[str]) -> list[str]:
    """Raises: ApprovalRequired: date would set the clock."""
    for argument in arguments:
        if not argument.startswith("+") and argument not in (
            "-u",
            "-I",
            "-R",
            "-Iseconds",
            "--utc",
            "--iso-8601=seconds",
        ):
            raise ApprovalRequired(f"the argument {argument} of date is not one that only reads")
    return []


_SPECIAL: Final[Mapping[str, Callable[[Sequence[str]], list[str]]]] = {
    "find": find_paths,
    "sed": sed_paths,
    "date": _date_paths,
}
