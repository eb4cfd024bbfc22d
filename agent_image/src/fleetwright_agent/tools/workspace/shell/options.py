"""Parses the options of a command by a list of the options that only read. Pure.

Every option that a rule does not name is refused, also its abbreviations. Options count wherever they stand before
`--`, as GNU programs read them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

_NONE: Final[frozenset[str]] = frozenset()


class ApprovalRequired(Exception):  # noqa: N818 - describes the command
    """The command does not run without approval. The message gives the reason."""


class Operands(Enum):
    PATHS = "paths"
    TEXT = "text"
    PATTERN_AND_PATHS = "pattern and paths"
    """The first operand is a pattern, unless an option gives the pattern."""


@dataclass(frozen=True, slots=True)
class OptionRule:
    """The options and operands with which a command only reads."""

    short: str = ""
    """Short options without a value."""
    short_values: str = ""
    """Short options with a value, attached or as the next argument."""
    short_attached: str = ""
    """Short options that may have an attached value, as `-U5`."""
    long: frozenset[str] = _NONE
    """Long options without a value."""
    long_values: frozenset[str] = _NONE
    """Long options with a value, after `=` or as the next argument."""
    long_equals: frozenset[str] = _NONE
    """Long options with a value, which is allowed only after `=`."""
    long_optional: frozenset[str] = _NONE
    """Long options that may have a value after `=`. An option that needs a value must not be here: it takes `--`."""
    paths: frozenset[str] = _NONE
    """Those of the options whose value is a path."""
    patterns: frozenset[str] = _NONE
    """Those of the options that give the pattern."""
    operands: Operands = Operands.PATHS
    most: int = 1000
    numbers: bool = False
    """True if `-5` is an option."""
    argument_files: bool = False
    """True if the program reads more arguments from a file for an argument such as `@file`."""


@dataclass(slots=True)
class ParsedArguments:
    options: list[tuple[str, str | None]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    separate: list[str] = field(default_factory=list)
    """The values that follow their option as a separate argument."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.options if name in names and value is not None]


def parse(rule: OptionRule, arguments: Sequence[str]) -> ParsedArguments:
    """Raises: ApprovalRequired: an argument is not in the rule."""
    parsed, rest = ParsedArguments(), iter(arguments)
    if rule.argument_files and any(argument.startswith("@") for argument in arguments):
        raise ApprovalRequired("it reads arguments from a file")
    for argument in rest:
        if argument == "--":
            parsed.operands.extend(rest)
        elif argument.startswith("--"):
            parsed.options.append(_long(rule, argument, rest, parsed.separate))
        elif argument.startswith("-") and argument != "-":
            parsed.options.extend(_short(rule, argument, rest, parsed.separate))
        else:
            parsed.operands.append(argument)
    if len(parsed.operands) > rule.most:
        raise ApprovalRequired(f"it has more than {rule.most} operands")
    return parsed


def read_paths(rule: OptionRule, parsed: ParsedArguments) -> list[str]:
    """Return the paths that the command reads."""
    named = parsed.values(*rule.paths)
    if rule.operands is Operands.TEXT:
        return named
    is_pattern = rule.operands is Operands.PATTERN_AND_PATHS and not parsed.has(*rule.patterns)
    return [*named, *(each for each in parsed.operands[1 if is_pattern else 0 :] if each != "-")]


def _long(rule: OptionRule, argument: str, rest: Iterator[str], separate: list[str]) -> tuple[str, str | None]:
    name, equals, value = argument[2:].partition("=")
    if name in rule.long and not equals:
        return name, None
    if name in rule.long_optional:
        return name, value if equals else None
    if name in rule.long_equals and equals:
        return name, value
    if name in rule.long_values:
        return name, value if equals else _next(argument, rest, separate)
    raise ApprovalRequired(f"its option {argument} is not one that only reads")


def _short(
    rule: OptionRule, argument: str, rest: Iterator[str], separate: list[str]
) -> Iterator[tuple[str, str | None]]:
    letters = argument[1:]
    if rule.numbers and letters.isascii() and letters.isdigit():
        return
    for n, letter in enumerate(letters):
        if letter in rule.short_values:
            yield letter, letters[n + 1 :] or _next(argument, rest, separate)
            return
        if letter in rule.short_attached:
            yield letter, letters[n + 1 :] or None
            return
        if letter not in rule.short:
            raise ApprovalRequired(f"its option -{letter} is not one that only reads")
        yield letter, None


def _next(argument: str, rest: Iterator[str], separate: list[str]) -> str:
    """Return the next argument. A value that looks like an option is refused: programs may read it as one."""
    value = next(rest, None)
    if value is None:
        raise ApprovalRequired(f"its option {argument} has no value")
    if value.startswith("-") and value != "-":
        raise ApprovalRequired(f"the value of its option {argument} looks like an option")
    separate.append(value)
    return value
