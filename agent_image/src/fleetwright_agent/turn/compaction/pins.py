"""What is shown to the letter after a compaction, taken from its source and never from a summary. Pure.

Standing rules come from the caller's own messages, plans and todos from the arguments of the call that wrote them, and
skills from their folder. No summariser is asked, so none can leave a rule out.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.compaction import CompactionPin, PinKind
from fleetwright_agent.turn.compaction.fence import PINNED, fence
from fleetwright_agent.turn.compaction.measure import estimate_text
from fleetwright_agent.turn.compaction.pages import whole_sentences

_RULE: Final = re.compile(
    r"\b(always|never|must(?: not|n't)?|do not|don't|only (?:if|when|with|after)|no more than|at most|at least"
    r"|under no circumstances|without (?:my|our) (?:approval|consent)|not allowed|forbidden|from now on)\b",
    re.IGNORECASE,
)
_NOTE: Final = "what still holds of the earlier conversation, word for word; the newest request is not here"
_ORDER: Final = (PinKind.POLICY, PinKind.PLAN, PinKind.TODOS, PinKind.SKILLS)
_HEADINGS: Final = {
    PinKind.POLICY: "The user's rules",
    PinKind.PLAN: "Plan",
    PinKind.TODOS: "Todos",
    PinKind.SKILLS: "Skill",
}
_PER_PIN: Final = 8
"""Tokens of its heading."""
ReadSkill = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Pin:
    """A rule, a plan, a list of todos; of a skill only its name, for its text lies in its folder."""

    kind: PinKind
    text: str


@dataclass(frozen=True, slots=True)
class Pinned:
    """The message that holds the pins, and what did not get into it."""

    text: str = ""
    missing: int = 0

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16] if self.text else ""


def pins_of(messages: Sequence[AnyMessage], kinds: Sequence[PinKind]) -> list[Pin]:
    """What some messages pin, oldest first."""
    done = {m.tool_call_id for m in messages if isinstance(m, ToolMessage) and m.status != "error"}
    pins: list[Pin] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            said = whole_sentences(message.text)
            pins += [Pin(PinKind.POLICY, text) for text in said if _RULE.search(text) and not text.endswith("?")]
        elif isinstance(message, AIMessage):
            calls = (call for call in message.tool_calls if call["id"] in done)
            pins += [pin for call in calls if (pin := _of_call(call["name"], call["args"])) is not None]
    return [pin for pin in pins if pin.kind in kinds]


def _of_call(name: str, arguments: dict[str, object]) -> Pin | None:
    words = set(re.split(r"[^a-z]+", name.lower()))
    if name == "load_skill" and isinstance(skill := arguments.get("name"), str):
        return Pin(PinKind.SKILLS, skill)
    for kind, wanted in ((PinKind.TODOS, {"todo", "todos"}), (PinKind.PLAN, {"plan", "plans"})):
        if words & wanted and arguments:
            return Pin(kind, json.dumps(arguments, ensure_ascii=False))
    return None


def merged(earlier: Sequence[Pin], newer: Sequence[Pin], kinds: Sequence[PinKind]) -> list[Pin]:
    """Both, each once; of plans and of todos the newest alone."""
    everything = {pin: None for pin in [*earlier, *newer] if pin.kind in kinds}
    newest = {pin.kind: pin for pin in [*earlier, *newer]}
    single = (PinKind.PLAN, PinKind.TODOS)
    return [pin for pin in everything if pin.kind not in single or newest[pin.kind] == pin]


def pinned(pins: Sequence[Pin], policy: CompactionPin, read_skill: ReadSkill) -> Pinned:
    """The message, rules first. Where the room ends the oldest are missing, and counted."""
    texts = {pin: read_skill(pin.text) if pin.kind is PinKind.SKILLS else pin.text for pin in pins}
    fitting: set[Pin] = set()
    left = policy.max_tokens
    for index in sorted(range(len(pins)), key=lambda i: (_place(pins[i]), -i)):
        pin = pins[index]
        text = texts[pin]
        if text is not None and (size := estimate_text(text) + _PER_PIN) <= left:
            left -= size
            fitting.add(pin)
    parts = [_line(pin, texts[pin] or "") for pin in sorted(pins, key=_place) if pin in fitting]
    return Pinned(fence(PINNED, _NOTE, "\n".join(parts)) if parts else "", len(pins) - len(fitting))


def _place(pin: Pin) -> int:
    return _ORDER.index(pin.kind)


def _line(pin: Pin, text: str) -> str:
    name = f" {pin.text}" if pin.kind is PinKind.SKILLS else ""
    return f"{_HEADINGS[pin.kind]}{name}: {text}"
