"""Recognises commands that never run, whatever a person says. Pure.

The test runs on the parsed command, so `rm -fr /` and `rm -r -f -- "/"` are the same, and `grep -r sudo src` is not
blocked. It follows wrappers such as `env` and `bash -c`. It is a guard against accidents; the workspace's pod is the
boundary.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from fleetwright_agent.tools.workspace.shell.nested import SHELLS, WRAPPERS, shell_script, wrapped_command
from fleetwright_agent.tools.workspace.shell.words import (
    HereDocument,
    ShellOperator,
    ShellWord,
    Token,
    UnreadableCommand,
    split_command,
)

_DEEPEST: Final = 6
_ROOT_USER: Final = frozenset({"sudo", "su", "doas", "pkexec", "run0"})
_DISKS: Final = frozenset(
    {"fdisk", "sfdisk", "cfdisk", "gdisk", "parted", "wipefs", "mkswap", "mke2fs", "blkdiscard", "mkfs"}
)
_KEYWORDS: Final = frozenset({"!", "{", "}", "if", "then", "else", "elif", "do", "while", "until", "time"})
_NAMED: Final = frozenset({"function", "coproc"})
"""Keywords that a name may follow."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SAFE_DEVICE: Final = re.compile(
    r"/dev/(null|zero|full|stdin|stdout|stderr|tty|ptmx|random|urandom|fd/.*|shm/.*|pts/.*)"
)
_TOP: Final = frozenset(
    {
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib64",
        "opt",
        "proc",
        "root",
        "run",
        "sbin",
        "srv",
        "sys",
        "usr",
        "var",
    }
)
_HOME: Final = frozenset({"~", "~/", "~/*", "$HOME", "$HOME/", "$HOME/*", "${HOME}", "${HOME}/", "${HOME}/*"})
_FORK_BODY: Final = re.compile(r"\(\)\{([\w.:]+)\|\1&\};?\1")
"""The text after the name of a function that starts itself twice."""
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]?")
_OPEN_MODES: Final = frozenset({"777", "0777", "a+rwx", "a=rwx", "ugo+rwx", "ugo=rwx"})
_COPIES: Final = frozenset({"cp", "mv", "tee", "install", "shred", "truncate", "ln"})
_CHANGES_TREES: Final = frozenset({"chmod", "chown", "chgrp"})


def destruction(command: str) -> str:
    """Return why the command never runs, or an empty string. A command that no shell can read is not recognised."""
    return _in_command(command, 0)


def _is_fork_bomb(said: str) -> bool:
    # The name is compared from its end, because an expression would try each part of a long word as the name.
    return any(said.endswith(body.group(1), 0, body.start()) for body in _FORK_BODY.finditer(said))


def _in_command(command: str, depth: int) -> str:
    if depth > _DEEPEST:
        return "its commands are nested too deeply"
    try:
        tokens = split_command(command)
    except UnreadableCommand:
        return ""
    if _is_fork_bomb("".join(_unquoted(token) for token in tokens)):
        return "it starts processes without end"
    has_shell = any(isinstance(each, ShellWord) and posixpath.basename(each.text) in SHELLS for each in tokens)
    for token in tokens:
        nested = token.nested if isinstance(token, ShellWord) else []
        is_input = token.is_input if isinstance(token, ShellWord) else isinstance(token, HereDocument)
        if is_input and has_shell:
            nested = [*nested, token.text]
        for each in nested:
            if found := _in_command(each, depth + 1):
                return found
    for words, targets in _simple_commands(tokens):
        if any(_is_device(target) for target in targets):
            return "it writes to a device"
        if found := _in_words(words, depth):
            return found
    return ""


def _unquoted(token: Token) -> str:
    return "" if isinstance(token, ShellWord) and token.quoted else token.text.strip()


def _simple_commands(tokens: Sequence[Token]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each simple command, and the files to which it redirects its output."""
    words: list[str] = []
    targets: list[str] = []
    redirects = ""
    for token in tokens:
        if isinstance(token, ShellWord):
            if redirects == ">":
                targets.append(token.text)
            elif not redirects:
                words.append(token.text)
            redirects = ""
        elif isinstance(token, ShellOperator) and token.text in "<>":
            redirects = token.text
        elif isinstance(token, ShellOperator) and redirects and token.text in "|&":
            continue  # `>|` and `>&` redirect too.
        elif isinstance(token, ShellOperator):
            yield words, targets
            words, targets, redirects = [], [], ""
    yield words, targets


def _in_words(words: Sequence[str], depth: int) -> str:
    """Return why a simple command never runs, with the wrappers removed."""
    rest = _without_keywords(words)
    if not rest:
        return ""
    name, arguments = posixpath.basename(rest[0]), rest[1:]
    if depth > _DEEPEST:
        return "its commands are nested too deeply"
    if name in _ROOT_USER:
        return f"{name} runs commands as another user"
    if name in _DISKS or name.startswith("mkfs.") or (rest[0] == "format" and any(map(_DRIVE.fullmatch, arguments))):
        return f"{name} changes whole disks"
    if name in WRAPPERS:
        return _in_words(wrapped_command(name, arguments), depth + 1)
    if script := shell_script(name, arguments):
        return _in_command(script, depth + 1)
    checked = _CHECKS.get(name)
    return checked(arguments, depth) if checked else ""


def _without_keywords(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and (rest[0] in _KEYWORDS or rest[0] in _NAMED or _ASSIGNMENT.match(rest[0])):
        is_named = rest[0] in _NAMED and rest[2:3] == ["{"]
        del rest[: 2 if is_named else 1]
    return rest


def _rm(arguments: Sequence[str], _: int) -> str:
    return "it deletes a root of the file system" if _is_recursive(arguments) and _names_root(arguments) else ""


def _change_tree(arguments: Sequence[str], _: int) -> str:
    return "it changes a root of the file system" if _is_recursive(arguments) and _names_root(arguments) else ""


def _chmod(arguments: Sequence[str], depth: int) -> str:
    if not _OPEN_MODES.isdisjoint(arguments):
        return "it lets every user write the files"
    return _change_tree(arguments, depth)


def _dd(arguments: Sequence[str], _: int) -> str:
    targets = [each.removeprefix("of=") for each in arguments if each.startswith("of=")]
    return "it writes to a device" if any(map(_is_device, targets)) else ""


def _copy(arguments: Sequence[str], _: int) -> str:
    return "it writes to a device" if any(map(_is_device, arguments)) else ""


def _find(arguments: Sequence[str], depth: int) -> str:
    for n, argument in enumerate(arguments):
        if argument in ("-exec", "-execdir", "-ok", "-okdir") and (found := _in_words(arguments[n + 1 :], depth + 1)):
            return found
    tests = [each for each in arguments if each.startswith("-")]
    if tests == ["-delete"] and any(_is_root(each) for each in arguments):
        return "it deletes a root of the file system"
    return ""


_CHECKS: Final[Mapping[str, Callable[[Sequence[str], int], str]]] = {
    "rm": _rm,
    "chmod": _chmod,
    "chown": _change_tree,
    "chgrp": _change_tree,
    "dd": _dd,
    "find": _find,
    **dict.fromkeys(_COPIES, _copy),
}


def _is_recursive(arguments: Sequence[str]) -> bool:
    for argument in arguments:
        if argument == "--":
            return False
        if argument.startswith("--"):
            if len(argument) > len("--") and "--recursive".startswith(argument):
                return True
        elif argument.startswith("-") and not {"r", "R"}.isdisjoint(argument):
            return True
    return False


def _names_root(arguments: Sequence[str]) -> bool:
    return any(_is_root(argument) for argument in arguments if not argument.startswith("-"))


def _is_root(path: str) -> bool:
    if path in _HOME:
        return True
    if not path.startswith("/"):
        return False
    parts = [part for part in posixpath.normpath(path).split("/") if part]
    if parts and parts[-1] in ("*", ".*"):
        parts.pop()
    return not parts or (len(parts) == 1 and parts[0] in _TOP)


def _is_device(path: str) -> bool:
    real = posixpath.normpath(re.sub(r"^/+", "/", path))
    return real.startswith("/dev/") and not _SAFE_DEVICE.fullmatch(real)
