"""The commands of the input line. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "help": "list commands and keys",
    "new": "begin another conversation",
    "sessions": "choose one of the conversations with this agent",
    "resume": "ID or number: continue a conversation; without it, choose one",
    "rename": "TITLE: name this conversation in the list of conversations",
    "status": "show the agent, the conversation and the connection",
    "cost": "show the cost of this conversation",
    "todos": "show the agent's list of work",
    "tool": "N: open the output of a tool call",
    "undo": "N: undo the file changes of the last N tasks, one without N; changes of commands stay",
    "fork": "N: continue in a copy of this conversation, without its last N turns",
    "cancel": "cancel the running task",
    "copy": "copy the newest answer to the clipboard of the terminal (OSC 52)",
    "export": "FILE: write the conversation to a new file",
    "model": "NAME: ask for this model from now on, if the agent lets callers choose",
    "effort": "low, medium or high: ask for this reasoning effort, if the agent lets callers choose",
    "skill": "ID: send the next message to this skill of the agent",
    "incognito": "keep the next messages out of the agent's memory, or end this",
    "quit": "leave; running tasks continue",
}
KEYS: Final = (
    "Enter sends, Alt-Enter adds a line, Tab completes /commands and @files.",
    "Ctrl-C clears the input, then cancels the running task, then leaves when pressed twice.",
    "Ctrl-D leaves and keeps the task running. Ctrl-O opens the newest tool output. Ctrl-L repaints.",
    "An approval takes y once, a for this conversation, n to decline, d for details; digits choose among several.",
)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    name: str
    argument: str


def slash_command(text: str) -> SlashCommand | None:
    """Return the command of an input, or None if it is a message. A path such as /etc/hosts is a message."""
    word, _, argument = text.strip().partition(" ")
    if not word.startswith("/") or not word[1:].isalpha():
        return None
    return SlashCommand(word[1:].lower(), argument.strip())


def help_text() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"/{name:<{width}}{about}" for name, about in COMMANDS.items()]
    return "\n".join([*lines, "", *KEYS])
