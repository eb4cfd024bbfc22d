"""The commands that begin with a slash."""

import time
from pathlib import Path
from typing import Any, Final, Protocol

from fleetwright_a2a.extensions import INCOGNITO, MODEL, REASONING_EFFORT
from fleetwright_cli.safe_text import one_line
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.session.conversations import ListedConversation, conversations
from fleetwright_cli.terminal.session.local_index import TITLE_LENGTH, LocalIndex
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.errors import TransportError
from fleetwright_cli.terminal.view.chat_screen import ChatScreen
from fleetwright_cli.terminal.view.slash_commands import SlashCommand, help_text

_EFFORTS: Final = ("low", "medium", "high")
_MOST_LISTED: Final = 30


class CommandTarget(Protocol):
    """The chat that the commands act on."""

    client: AgentClient
    screen: ChatScreen
    index: LocalIndex
    folder: Path
    metadata: dict[str, Any]
    skill: str

    @property
    def state(self) -> ChatState: ...

    async def begin(self) -> None: ...

    async def resume(self, context_id: str) -> None: ...

    async def cancel(self) -> None: ...

    async def rename(self, title: str) -> None: ...

    async def undo(self, count: int) -> None: ...

    async def fork(self, left_out: int) -> None: ...

    def open_tool(self, number: int | None = None) -> None: ...


class ChatCommands:
    def __init__(self, chat: CommandTarget) -> None:
        self._chat = chat
        self._listed: list[ListedConversation] = []

    async def run(self, command: SlashCommand) -> None:
        match command.name:
            case "help":
                self._chat.screen.note(help_text())
            case "new":
                await self._chat.begin()
                self._chat.screen.note("New conversation.")
            case "sessions":
                await self._list()
            case "resume":
                await self._resume(command.argument)
            case "rename":
                await self._rename(command.argument)
            case "status":
                await self._status()
            case "cost":
                self._chat.screen.note(self._cost())
            case "todos":
                todos = self._chat.state.todos
                self._chat.screen.note("\n".join(f"{each.status}: {each.text}" for each in todos) or "No todos.")
            case "tool":
                self._chat.open_tool(int(command.argument) if command.argument.isdecimal() else None)
            case "undo" | "fork":
                await self._rewind(command)
            case "cancel":
                await self._chat.cancel()
            case "copy":
                self._chat.screen.copy(self._chat.screen.last_answer())
                self._chat.screen.note("Copied, if the terminal supports OSC 52.")
            case "export":
                self._export(command.argument)
            case "model" | "effort":
                self._choose(command)
            case "skill":
                self._chat.skill = command.argument
                self._chat.screen.note(
                    f"The next message is for the skill {command.argument}." if self._chat.skill else "No skill."
                )
            case "incognito":
                self._toggle_incognito()
            case "quit" | "exit":
                self._chat.screen.leave()
            case _:
                self._chat.screen.note(f"/{command.name} is not a command; /help lists them.", bad=True)

    async def _list(self) -> None:
        try:
            self._listed = await conversations(self._chat.client, self._chat.index.of(self._chat.client.endpoint.key))
        except TransportError as error:
            self._chat.screen.note(str(error), bad=True)
            return
        if not self._listed:
            self._chat.screen.note("No conversations yet.")
            return
        rows = [
            f"{time.strftime('%Y-%m-%d %H:%M', time.localtime(each.used))}"
            f"  {'waits  ' if each.waits else ''}{one_line(each.title, 60) or '(no text)'}"
            f"{'' if each.on_agent else '  (transcript gone)'}"
            for each in self._listed[:_MOST_LISTED]
        ]
        chosen = await self._chat.screen.pick("Conversations; /resume N continues one", rows)
        if chosen is not None:
            await self._resume(str(chosen + 1))

    async def _resume(self, argument: str) -> None:
        if not argument:
            await self._list()
            return
        number = int(argument) if argument.isdecimal() else 0
        context_id = self._listed[number - 1].context_id if 0 < number <= len(self._listed) else argument
        try:
            await self._chat.resume(context_id)
        except TransportError as error:
            self._chat.screen.note(str(error), bad=True)

    async def _rewind(self, command: SlashCommand) -> None:
        """Undo file changes, or fork the conversation. The argument is a number of turns."""
        undoes = command.name == "undo"
        given = command.argument or ("1" if undoes else "0")
        number = int(given) if given.isascii() and given.isdecimal() else -1
        if number < (1 if undoes else 0):
            self._chat.screen.note(f"/{command.name} takes a number of turns, or nothing.", bad=True)
            return
        try:
            await (self._chat.undo(number) if undoes else self._chat.fork(number))
        except TransportError as error:
            self._chat.screen.note(str(error), bad=True)

    async def _rename(self, argument: str) -> None:
        title = one_line(argument, TITLE_LENGTH)
        if not title:
            self._chat.screen.note("Give a title: /rename TITLE", bad=True)
            return
        try:
            await self._chat.rename(title)
        except TransportError as error:
            self._chat.screen.note(str(error), bad=True)

    async def _status(self) -> None:
        try:
            card = await self._chat.client.card()
        except TransportError as error:
            self._chat.screen.note(str(error), bad=True)
            return
        skills = ", ".join(card.skills) or "none"
        lines = [
            f"agent         {card.name} {card.version}: {one_line(card.description, 100)}",
            f"address       {card.endpoint}",
            f"conversation  {self._chat.state.context_id}, {self._chat.state.turns} turns since this client has joined",
            f"skills        {skills}",
            f"choices       {', '.join(f'{key} {value}' for key, value in self._chat.metadata.items()) or 'none'}",
        ]
        self._chat.screen.note("\n".join(lines))

    def _cost(self) -> str:
        cost = self._chat.state.cost
        price = "no price" if cost.usd is None else f"{cost.usd:f} USD"
        calls = f"{cost.model_calls} model calls, {cost.tool_calls} tool calls"
        return f"{price}, {cost.input_tokens} tokens in, {cost.output_tokens} out, {calls}"

    def _export(self, name: str) -> None:
        """Write the conversation to a new file that only the user can read."""
        if not name:
            self._chat.screen.note("Name a file: /export FILE", bad=True)
            return
        path = self._chat.folder / Path(name).expanduser()
        try:
            path.touch(mode=0o600, exist_ok=False)
            path.write_text(self._chat.screen.export())
        except OSError as error:
            self._chat.screen.note(f"{path}: {error.strerror}; /export writes new files only", bad=True)
            return
        self._chat.screen.note(f"Written to {path}.")

    def _choose(self, command: SlashCommand) -> None:
        if command.name == "effort" and command.argument not in ("", *_EFFORTS):
            self._chat.screen.note(f"/effort takes {', '.join(_EFFORTS)}, or nothing for the agent's own.", bad=True)
            return
        key = MODEL if command.name == "model" else REASONING_EFFORT
        if command.argument:
            self._chat.metadata[key] = command.argument
        else:
            self._chat.metadata.pop(key, None)
        chosen = command.argument or "the agent's own"
        self._chat.screen.note(f"{command.name}: {chosen}. The agent ignores it unless its a2a.callerChoices names it.")

    def _toggle_incognito(self) -> None:
        if self._chat.metadata.pop(INCOGNITO, None) is None:
            self._chat.metadata[INCOGNITO] = True
            self._chat.screen.note("The agent stores no session and no fact of the next messages.")
        else:
            self._chat.screen.note("The agent remembers the next messages again.")
