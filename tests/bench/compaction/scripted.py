"""A chat model that follows a conversation's script and summarises by rule when a request asks for a summary.

It depends on LangChain's core alone, so that every system under test talks to the same model.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from tests.bench.compaction.fixtures import Call, Conversation, Turn
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.records import ASK, TODOS
from tests.bench.compaction.summarisers import Summarise


def as_text(message: BaseMessage) -> str:
    """Return one message of a prompt as the provider would receive it."""
    # Measures convert each message again for each prompt, so only messages with tool calls pay for them.
    made = message.tool_calls if isinstance(message, AIMessage) else ()
    calls = json.dumps([[c["name"], c["args"]] for c in made]) if made else ""
    text = message.content if isinstance(message.content, str) else json.dumps(message.content)
    return f"{message.type}: {text} {calls}"


@dataclass
class Script:
    """The position in a conversation, and what was sent for it."""

    conversation: Conversation
    provider: Provider
    summarise: Summarise
    turn: int = -1
    step: int = 0
    silent: bool = False
    """True if the model reports no token usage, as some providers do."""
    prompt: list[str] = field(default_factory=list)
    """The newest prompt of the conversation itself."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Number of prompts by the required content that they lack."""
    held: Counter[str] = field(default_factory=Counter)
    """Number of prompts by the content that was open at the time."""
    systems: set[str] = field(default_factory=set)
    """Every system message of the conversation's own prompts."""
    overflow: Callable[[], Exception] = ValueError
    """Makes the exception for a prompt beyond the provider's window."""
    delay: float = 0.0
    """Seconds that a summary takes."""

    def ask(self) -> str:
        """Return the next message of the user."""
        self.turn, self.step = self.turn + 1, 0
        return self.conversation.turns[self.turn].asked

    def answer(self, messages: Sequence[BaseMessage], tools: Sequence[Any]) -> AIMessage:
        prompt = [json.dumps(list(tools), default=str), *(as_text(message) for message in messages)]
        total, known = self._taken(prompt, summary=False)
        self.prompt = prompt
        self.wrong.update(self._wrong(messages, "\n".join(prompt[1:])))
        self.systems |= {as_text(message) for message in messages if message.type == "system"}
        turn = self.conversation.turns[self.turn]
        name = f"call-{self.turn}-{self.step}"
        if self.step < len(turn.calls):
            call = turn.calls[self.step]
            self.step += 1
            calls = [{"name": call.name, "args": call.arguments, "id": name, "type": "tool_call"}]
            return _told("", calls, total, known, self.provider)
        told = _told(turn.answer or "Done.", [], total, known, self.provider)
        return told.model_copy(update={"usage_metadata": None}) if self.silent else told

    def _wrong(self, messages: Sequence[BaseMessage], everything: str) -> set[str]:
        found: set[str] = set()
        waiting: set[str] = set()
        for message in messages:
            if isinstance(message, ToolMessage):
                found |= {"orphans"} if message.tool_call_id not in waiting else set()
                waiting.discard(message.tool_call_id)
                continue
            found |= {"orphans"} if waiting else set()
            waiting = {call["id"] or "" for call in message.tool_calls} if isinstance(message, AIMessage) else set()
        asked = self.conversation.turns[self.turn].asked
        said = "\n".join(str(message.content) for message in messages if message.type == "human")
        found |= set() if asked in said else {"lost requests"}
        rules = [rule for rule in self.conversation.rules if self._said(rule)]
        return found | (set() if all(rule in said for rule in rules) else {"lost rules"}) | self._lost(everything)

    def _lost(self, prompt: str) -> set[str]:
        """Return the open items that a prompt lacks: the newest todos, the agent's question, a person's approval."""
        held = {
            "todos": [
                text for call in self._made(TODOS, self.conversation.turns)[-1:] for text in call.arguments["items"]
            ],
            "open questions": [
                turn.answer[turn.answer.rfind("Shall I") :] for turn in self._before() if "Shall I" in turn.answer
            ],
            "approvals": [call.result for call in self._made(ASK, [])],
        }
        self.held.update(name for name, texts in held.items() if texts)
        return {f"lost {name}" for name, texts in held.items() if not all(text in prompt for text in texts)}

    def _before(self) -> list[Turn]:
        return self.conversation.turns[max(0, self.turn - 1) : self.turn]

    def _made(self, name: str, earlier: list[Turn]) -> list[Call]:
        """Return the completed calls of that tool in earlier turns and in the current one."""
        under_way = self.conversation.turns[self.turn].calls[: self.step]
        made = [call for turn in earlier[: self.turn] for call in turn.calls] + under_way
        return [call for call in made if call.name == name]

    def _said(self, rule: str) -> bool:
        return any(rule in turn.asked for turn in self.conversation.turns[: self.turn + 1])

    def summary(self, messages: Sequence[BaseMessage], tools: Sequence[Any]) -> AIMessage:
        prompt = [json.dumps(list(tools), default=str), *(as_text(message) for message in messages)]
        total, known = self._taken(prompt, summary=True)
        # The newest message is the instruction, or holds it together with everything else.
        seen = [message for message in messages if message.type != "system"]
        text = "\n".join(str(message.content) for message in (seen[:-1] or seen))
        return _told(self.summarise(text), [], total, known, self.provider)

    def _taken(self, prompt: list[str], *, summary: bool) -> tuple[int, int]:
        try:
            return self.provider.take(prompt, summary=summary)
        except ValueError as error:
            raise self.overflow() from error

    def result(self) -> tuple[str, bool]:
        """Return the result of the last tool call."""
        call = self.conversation.turns[self.turn].calls[self.step - 1]
        return call.result, call.failed


def _told(text: str, calls: list[Any], total: int, known: int, provider: Provider) -> AIMessage:
    out = provider.give(text + json.dumps(calls))
    usage = {"input_tokens": total, "output_tokens": out, "total_tokens": total + out}
    return AIMessage(text, tool_calls=calls, usage_metadata={**usage, "input_token_details": {"cache_read": known}})


class ScriptedChat(BaseChatModel):
    """Summarises if the request limits the length of the reply, or if the model was built to summarise."""

    script: Any
    summarises: bool = False
    model_name: str = "scripted"
    endpoint: Any = None
    """The endpoint of the agent's own model, for Fleetwright's links."""

    def heard(self, said: Any, thought: Any) -> "ScriptedChat":
        return self

    def other(self, model: Any) -> "ScriptedChat":
        return self.model_copy(update={"model_name": model.name, "endpoint": model.at(self.endpoint)})

    def cap(self, tokens: int) -> dict[str, Any]:
        return {"max_completion_tokens": tokens}

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), tool_choice=tool_choice, **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if self.script.delay and (self.summarises or "max_completion_tokens" in kwargs):
            await asyncio.sleep(self.script.delay)
        return self._generate(messages, *args, **kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        tools = kwargs.get("tools") or []
        if self.summarises or "max_completion_tokens" in kwargs:
            reply = self.script.summary(messages, tools)
        else:
            reply = self.script.answer(messages, tools)
        return ChatResult(generations=[ChatGeneration(message=reply)])
