"""Seeded histories under seeded compaction policies, and the properties that must hold for all of them."""

import random
from collections import Counter
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.compaction import Compaction, PinKind
from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.compaction.compactor import Compactor
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCache
from fleetwright_agent.turn.compaction.pairs import active_request, has_open_call, is_torn
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.compaction.summariser import SummaryFailed
from fleetwright_agent.turn.compaction.view import View, visible_messages
from fleetwright_agent.turn.compaction.view_body import dump_view, load_view

RULE = "Never spend more than 50 EUR without asking me."
_MODEL = {"name": "m", "baseUrl": "u", "contextWindow": 4000, "maxOutputTokens": 500, "timeoutSeconds": 1}


def history(seed: int) -> list[AnyMessage]:
    """Return exchanges with and without tool calls.

    Some calls stay open as after a kill; some histories hold a rule or todos.
    """
    chance = random.Random(seed)
    messages: list[AnyMessage] = []
    for turn in range(chance.randint(1, 25)):
        rule = f" {RULE}" if chance.random() < 0.1 else ""
        messages.append(HumanMessage("ask " * chance.randint(1, 80) + rule, id=f"h{turn}"))
        for step in range(chance.randint(0, 3)):
            names = [f"c{turn}-{step}-{i}" for i in range(chance.randint(1, 3))]
            tool = chance.choice(("look", "look", "look", "write_todos"))
            calls = [{"name": tool, "args": {"items": [f"{turn}-{step}"]}, "id": n, "type": "tool_call"} for n in names]
            messages.append(AIMessage("", tool_calls=calls, id=f"a{turn}-{step}"))
            answered = names if chance.random() < 0.9 else names[:-1]
            messages += [
                ToolMessage("r" * chance.randint(1, 900), tool_call_id=n, id=f"t{n}", name=tool) for n in answered
            ]
        if chance.random() < 0.9:
            messages.append(AIMessage("answer " * chance.randint(1, 50), id=f"e{turn}"))
    return messages


async def violations(seed: int) -> list[str]:
    """Return the violations of one history that is compacted at up to four points of its growth."""
    chance = random.Random(seed)
    messages = history(seed)
    keep = chance.choice((1, 3, 20))
    policy = Compaction.model_validate({"keep": {"messages": keep}, "guard": {"minGain": "0.01"}})
    maker = Compactor(policy, Model.model_validate(_MODEL), lambda _: None)
    found: list[str] = []
    view: View | None = None
    reading = ExtractionCache()
    for end in sorted(chance.sample(range(1, len(messages) + 1), min(4, len(messages)))):
        stored = messages[:end]
        if has_open_call(stored):
            # The model is called only after the pending tool calls have ended.
            continue
        try:
            made = await maker.summarised(
                Prompt(stored, view),
                _reply(chance),
                reading=reading,
                chat=_NONE,
                cold=True,
                refused=chance.choice((None, 3000)),
            )
        except SummaryFailed:
            continue
        view = made.view
        if load_view(dump_view(view)) != view:
            found.append("a view that is stored comes back as another")
        found += _wrong(messages, stored, view)
    return [f"{seed}: {word}" for word in found]


def _wrong(messages: list[AnyMessage], stored: list[AnyMessage], view: View) -> list[str]:
    found = []
    visible = visible_messages(stored, view, "")
    request = active_request(stored)
    if is_torn(visible):
        found.append("a torn pair")
    if request is not None and not any(m.id == request.id and m.content == request.content for m in visible):
        found.append("the request under way is lost")
    gone = {m.id for m in stored} - {m.id for m in visible}
    if any(RULE in m.text for m in stored if m.id in gone) and not any(RULE in m.text for m in visible):
        found.append("a rule is lost")
    if not all(pin.text in view.pinned for pin in view.pins if pin.kind is not PinKind.SKILLS):
        found.append("a pin is not shown")
    later = visible_messages(messages, view, "")[: len(visible) - 1]
    if [m.content for m in visible[: len(later)]] != [m.content for m in later]:
        found.append("what was shown changes when the conversation goes on")
    return found


def _reply(chance: random.Random) -> Any:
    async def ask(*_: Any, **__: Any) -> AIMessage:
        words = chance.choice(("Goal: go on.\nFacts:\n- one", "just text", "Next: more", ""))
        return AIMessage(words)

    return ask


class _Chat:
    endpoint = Model.model_validate(_MODEL)

    def cap(self, _: int) -> dict[str, Any]:
        return {}

    def bind(self, **_: Any) -> "_Chat":
        return self

    def bind_tools(self, *_: Any, **__: Any) -> "_Chat":
        return self


_NONE: Any = _Chat()


async def count(histories: int, *, first: int = 0) -> Counter[str]:
    """Count the violations by kind."""
    kinds: Counter[str] = Counter()
    for seed in range(first, first + histories):
        kinds.update(word.partition(": ")[2] for word in await violations(seed))
    return kinds
