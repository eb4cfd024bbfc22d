"""Finds the command that another command runs, such as those of `env`, `xargs` and `bash -c`. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.tools.workspace.shell.words import ShellWord, UnreadableCommand, split_command

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_SHELL_VALUES: Final = frozenset({"--rcfile", "--init-file"})
"""Long options of a shell that take a value."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The options and operands of a command that runs another command."""

    short: str = ""
    """Its short options that take a value."""
    long: tuple[str, ...] = ()
    """Its long options that take a value as the next argument."""
    operands: int = 0
    """The number of operands before the command."""
    split: str = ""
    """The short option whose value is split into words of the command."""
    long_split: str = ""


WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "env": Wrapper("uC", ("unset", "chdir"), split="S", long_split="split-string"),
    "nohup": Wrapper(),
    "nice": Wrapper("n", ("adjustment",)),
    "ionice": Wrapper("cnpPu", ("class", "classdata", "pid", "pgid", "uid")),
    "timeout": Wrapper("ks", ("kill-after", "signal"), operands=1),
    "stdbuf": Wrapper("ioe", ("input", "output", "error")),
    "setsid": Wrapper(),
    "exec": Wrapper("a"),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "time": Wrapper("fo", ("format", "output")),
    "xargs": Wrapper(
        "adEILnPs",
        ("arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars", "process-slot-var"),
    ),
    "busybox": Wrapper(),
    "unshare": Wrapper("SGRw", ("setuid", "setgid", "root", "wd", "map-user", "map-group", "propagation")),
    "chroot": Wrapper(long=("userspec", "groups"), operands=1),
}
"""Commands that run another command."""
_JOINED: Final = Wrapper("n", ("interval",))
_FLOCK: Final = Wrapper("wE", ("wait", "timeout", "conflict-exit-code"), operands=1)


def wrapped_command(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the words of the command that a wrapper runs."""
    return _operands(WRAPPERS[name], arguments)


def shell_script(name: str, arguments: Sequence[str]) -> str:
    """Return the text that a shell interprets for this command, or an empty string."""
    if name in SHELLS:
        return _script(arguments)
    if name == "eval":
        return " ".join(arguments)
    if name == "trap":
        return " ".join([each for each in arguments if each != "--"][:1])
    if name == "watch":
        return " ".join(_operands(_JOINED, arguments))
    if name == "flock":
        rest = _operands(_FLOCK, arguments)
        return " ".join(rest[1:2]) if rest[:1] in (["-c"], ["--command"]) else shlex.join(rest)
    return ""


def _operands(wrapper: Wrapper, arguments: Sequence[str]) -> list[str]:
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "--":
        option = rest.pop(0)
        if option.startswith("--"):
            name, equals, value = option[2:].partition("=")
            if wrapper.long_split and name and wrapper.long_split.startswith(name):
                return _split(value if equals else "".join(rest[:1])) + rest[0 if equals else 1 :]
            # Programs accept abbreviations of long options.
            if not equals and any(each.startswith(name) for each in wrapper.long):
                del rest[:1]
            continue
        for n, letter in enumerate(option[1:], start=1):
            attached = option[n + 1 :]
            if letter == wrapper.split:
                return _split(attached or "".join(rest[:1])) + rest[0 if attached else 1 :]
            if letter in wrapper.short:
                del rest[: 0 if attached else 1]
                break
    if rest[:1] == ["--"]:
        del rest[0]
    return rest[wrapper.operands :]


def _split(text: str) -> list[str]:
    """Return the words of a text that `env -S` splits."""
    try:
        return [token.text for token in split_command(text) if isinstance(token, ShellWord)]
    except UnreadableCommand:
        return text.split()


def _script(arguments: Sequence[str]) -> str:
    """Return the script of `bash -c SCRIPT`. A shell reads all of its options before the script."""
    rest, runs = list(arguments), False
    while rest and rest[0][:1] in ("-", "+"):
        option = rest.pop(0)
        if option in ("-", "--"):
            break
        if option.startswith("--"):
            del rest[: 1 if option in _SHELL_VALUES else 0]
            continue
        runs = runs or (option[0] == "-" and "c" in option)
        del rest[: option.count("o") + option.count("O")]
    return "".join(rest[:1]) if runs else ""
