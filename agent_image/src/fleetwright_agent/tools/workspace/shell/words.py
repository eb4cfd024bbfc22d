"""Splits a shell command into words and operators, as POSIX shells and bash do. Pure.

The result states for each word which of its parts a shell would change: expansions, globs, tildes, braces. A command is
plain if a shell would run exactly its words. A plain command can run without a shell, with the same meaning.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_OPERATORS: Final = frozenset("|&;<>()")
_HERE: Final = 2
"""The number of signs `<` that begin a here-document."""
_HERE_STRING: Final = 3
"""The number of signs `<` before a word that a command reads as its input."""
_SPACE: Final = frozenset(" \t")
_ESCAPED_IN_QUOTES: Final = frozenset('$`"\\\n')
_ANSI_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ANSI_CODE: Final = re.compile(
    r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<short>[0-9a-fA-F]{1,4})|U(?P<long>[0-9a-fA-F]{1,8})|(?P<octal>[0-7]{1,3}))"
)
_LAST_CODE: Final = 0x10FFFF


@dataclass(slots=True)
class ShellWord:
    text: str = ""
    """The text after the removal of quotes. Expansions are left as they are written."""
    special: str = ""
    """The expansions that a shell would perform on this word; empty if there are none."""
    nested: list[str] = field(default_factory=list)
    """The commands of the substitutions in this word."""
    quoted: bool = False
    braced: bool = False
    """True if the word has an opening brace outside quotes."""
    is_input: bool = False
    """True for the word of a here-string, which a command reads as its input."""

    def mark(self, special: str) -> None:
        self.special = self.special or special


@dataclass(frozen=True, slots=True)
class ShellOperator:
    text: str


@dataclass(frozen=True, slots=True)
class HereDocument:
    text: str


Token = ShellWord | ShellOperator | HereDocument


class UnreadableCommand(ValueError):  # noqa: N818 - describes the command
    """The command has an unclosed quote or substitution, or characters that no shell command needs."""


def split_command(command: str) -> list[Token]:
    """Return the words and operators of a command. Raises: UnreadableCommand."""
    for character in command:
        if character in " \t\n" or (character.isascii() and character.isprintable()):
            continue
        if unicodedata.category(character)[0] in "CZ":
            raise UnreadableCommand(f"it contains the invisible character {character!a}")
    return list(_Reader(command).tokens())


class _Reader:
    def __init__(self, command: str) -> None:
        self._command = command
        self._at = 0
        self._documents: list[str] = []
        """The ends of the here-documents that begin on the next line."""
        self._arrows = 0

    def tokens(self) -> Iterator[Token]:
        word: ShellWord | None = None
        while self._at < len(self._command):
            sign = self._command[self._at]
            if sign in _SPACE or sign in _OPERATORS or sign == "\n":
                if word is not None:
                    yield self._ended(word)
                word = None
                self._at += 1
                if sign not in _SPACE:
                    self._arrows = self._arrows + 1 if sign == "<" else 0
                    yield ShellOperator(sign)
                if sign == "\n":
                    for end in self._documents:
                        yield HereDocument(self._document(end))
                    self._documents = []
            elif sign == "#" and word is None:
                self._comment()
                yield ShellOperator("#")
            else:
                word = word or ShellWord()
                self._part(word, sign)
        if word is not None:
            yield self._ended(word)

    def _ended(self, word: ShellWord) -> ShellWord:
        if self._arrows == _HERE:
            self._documents.append(word.text.removeprefix("-"))
        word.is_input = self._arrows == _HERE_STRING
        self._arrows = 0
        if word.braced and ("," in word.text or ".." in word.text):
            word.mark("a brace expansion")
        return word

    def _document(self, end: str) -> str:
        """Read the lines of a here-document."""
        lines: list[str] = []
        while self._at < len(self._command):
            line, _, _ = self._command[self._at :].partition("\n")
            self._at += len(line) + 1
            if line.strip("\t") == end:
                break
            lines.append(line)
        return "\n".join(lines)

    def _part(self, word: ShellWord, sign: str) -> None:
        match sign:
            case "'":
                word.quoted = True
                word.text += self._until("'")
            case '"':
                word.quoted = True
                self._double_quoted(word)
            case "\\" if self._command[self._at + 1 : self._at + 2] in ("(", ")", "!"):
                # Every shell reads these as plain characters.
                word.text += self._command[self._at + 1]
                self._at += 2
            case "\\":
                word.mark("a backslash")
                word.text += self._command[self._at + 1 : self._at + 2].replace("\n", "")
                self._at += 2
            case "$" if self._command[self._at + 1 : self._at + 2] == "'":
                word.mark("an expansion")
                word.quoted = True
                self._at += 1
                word.text += self._ansi_quoted()
            case "$" if self._command[self._at + 1 : self._at + 2] == '"':
                # The shell translates this text, or leaves it as it is.
                word.mark("an expansion")
                self._at += 1
            case "$" | "`":
                self._expansion(word)
            case _:
                if sign in "*?[":
                    word.mark("a glob pattern")
                elif sign == "~" and (not word.text or word.text[-1] in "=:"):
                    word.mark("a tilde")
                word.braced = word.braced or sign == "{"
                word.text += sign
                self._at += 1

    def _comment(self) -> None:
        end = self._command.find("\n", self._at)
        self._at = len(self._command) if end < 0 else end

    def _until(self, end: str) -> str:
        """Read a quoted text that begins at the current position."""
        close = self._command.find(end, self._at + 1)
        if close < 0:
            raise UnreadableCommand(f"the quote {end} is not closed")
        text = self._command[self._at + 1 : close]
        self._at = close + 1
        return text

    def _ansi_quoted(self) -> str:
        """Read a text such as $'a\\nb', whose escapes bash replaces."""
        text = ""
        self._at += 1
        while self._at < len(self._command):
            sign = self._command[self._at]
            if sign == "'":
                self._at += 1
                return text
            if sign == "\\" and (code := _ANSI_CODE.match(self._command, self._at)):
                text += _character(code)
                self._at = code.end()
            elif sign == "\\":
                letter = self._command[self._at + 1 : self._at + 2]
                text += _ANSI_LETTERS.get(letter, letter)
                self._at += 2
            else:
                text += sign
                self._at += 1
        raise UnreadableCommand("the quote ' is not closed")

    def _double_quoted(self, word: ShellWord) -> None:
        self._at += 1
        while self._at < len(self._command):
            sign = self._command[self._at]
            if sign == '"':
                self._at += 1
                return
            if sign in "$`":
                self._expansion(word)
            elif sign == "\\" and self._command[self._at + 1 : self._at + 2] in _ESCAPED_IN_QUOTES:
                word.mark("a backslash")
                word.text += self._command[self._at + 1 : self._at + 2].replace("\n", "")
                self._at += 2
            else:
                word.text += sign
                self._at += 1
        raise UnreadableCommand('the quote " is not closed')

    def _expansion(self, word: ShellWord) -> None:
        """Read a variable or a substitution; the command of a substitution is kept for inspection."""
        word.mark("an expansion")
        if self._command[self._at] == "`":
            word.nested.append(self._until("`"))
            word.text += "`"
        elif self._command[self._at : self._at + 2] == "$(":
            start = self._at + 2
            self._at = self._closing(start)
            word.nested.append(self._command[start : self._at])
            word.text += "$()"
            self._at += 1
        else:
            word.text += "$"
            self._at += 1

    def _closing(self, start: int) -> int:
        """Return the position of the parenthesis that closes a substitution."""
        depth, at, quote = 1, start, ""
        while at < len(self._command):
            sign = self._command[at]
            if sign == "\\" and quote != "'":
                at += 1
            elif quote:
                quote = "" if sign == quote else quote
            elif sign in "'\"":
                quote = sign
            elif sign in "()":
                depth += 1 if sign == "(" else -1
                if not depth:
                    return at
            at += 1
        raise UnreadableCommand("a substitution is not closed")


def _character(code: "re.Match[str]") -> str:
    octal = code["octal"]
    number = int(octal, 8) if octal else int(code["hex"] or code["short"] or code["long"], 16)
    return chr(min(number, _LAST_CODE))
