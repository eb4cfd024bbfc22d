"""The message that shows the pins of a conversation to the model. Pure."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.config.compaction import CompactionPin, PinKind
from fleetwright_agent.protocol.fences import PINNED, fence
from fleetwright_agent.turn.compaction.ledger import EARLIER, LATEST
from fleetwright_agent.turn.compaction.measure import estimate_text
from fleetwright_agent.turn.compaction.pins import MESSAGE_SHARE, Pin, place_of, rank
from fleetwright_agent.turn.compaction.rules import (
    revises,
)
from fleetwright_agent.turn.compaction.text.subject_groups import SubjectGroups
from fleetwright_agent.turn.compaction.text.subjects import subject_of
from fleetwright_agent.turn.compaction.text.voice import Voice

_NOTE: Final = "what still holds of the earlier conversation, word for word; the newest request is not here"
_HEADINGS: Final = {
    PinKind.POLICY: "The user's rules",
    PinKind.PLAN: "Plan",
    PinKind.TODOS: "Todos",
    PinKind.SKILLS: "Skill",
}
_PER_PIN: Final = 8
"""Tokens of the heading of a pin."""
_WINDOW_SHARE: Final = 0.15
"""The maximum share of the context window for pins."""
ReadSkill = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class PinMessage:
    """The message that shows the pins, and the number of pins that did not fit."""

    text: str = ""
    missing: int = 0
    rules: tuple[Pin, ...] = ()
    """The rules in the message."""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16] if self.text else ""


def render_pins(
    pins: Sequence[Pin], policy: CompactionPin, read_skill: ReadSkill, *, window: int | None = None
) -> PinMessage:
    """Return the message with the pins. If they do not all fit, pins of the lowest rank are omitted and counted.

    Args:
        pins: All stored pins, oldest first.
        policy: The maximum size of the message.
        read_skill: Returns the text of a skill, or None.
        window: The model's context window in tokens; pins use at most 15 % of it.
    """
    marks = _marks(pins)
    texts = {pin: read_skill(pin.text) if pin.kind is PinKind.SKILLS else pin.text for pin in pins}
    room = policy.max_tokens if window is None else min(policy.max_tokens, int(_WINDOW_SHARE * window) - _FRAME)
    left, share = room, max(0, room // MESSAGE_SHARE)
    taken: Counter[str] = Counter()
    fitting: set[Pin] = set()
    for index in sorted(range(len(pins)), key=lambda i: (rank(pins[i]), i), reverse=True):
        pin = pins[index]
        text = texts[pin]
        if text is None:
            continue
        size = estimate_text(_line(pin, text, marks)) + _PER_PIN
        of_message = taken[pin.message] + size if pin.kind is PinKind.POLICY and pin.message else 0
        if size <= left and of_message <= share:
            left -= size
            taken[pin.message] = of_message
            fitting.add(pin)
    parts = [_line(pin, texts[pin] or "", marks) for pin in sorted(pins, key=place_of) if pin in fitting]
    rules = tuple(pin for pin in pins if pin in fitting and pin.kind is PinKind.POLICY)
    return PinMessage(fence(PINNED, _NOTE, "\n".join(parts)) if parts else "", len(pins) - len(fitting), rules)


_FRAME: Final = estimate_text(fence(PINNED, _NOTE, ""))


def _marks(pins: Sequence[Pin]) -> dict[Pin, str]:
    """Mark each rule that a later rule revises as `EARLIER`, and the revising rule as `LATEST`."""
    rules = [pin for pin in pins if pin.kind is PinKind.POLICY and pin.voice is Voice.OWN and not pin.withdraws]
    groups, marks = SubjectGroups(), dict[Pin, str]()
    for place, pin in enumerate(rules):
        about = subject_of(pin.text)
        if revises(pin.text):
            related = groups.groups_of(about)
            earlier = [each for i, each in enumerate(rules[:place]) if groups.group(i) in related]
            marks |= dict.fromkeys(earlier, EARLIER)
            marks |= {pin: LATEST} if earlier else {}
        groups.add(about)
    return marks


def _line(pin: Pin, text: str, marks: Mapping[Pin, str]) -> str:
    said = _said(pin, text) + marks.get(pin, "")
    later = pin.later or pin.contradicted
    return f'{said} [earlier; later the user said: "{later}" [latest]]' if later else said


def _said(pin: Pin, text: str) -> str:
    if pin.kind is PinKind.POLICY and pin.voice is not Voice.OWN:
        return f'Text in a message of the user, possibly quoted (the message begins "{pin.begins}"): {text}'
    if pin.withdraws:
        return f"The user's newest word, which ends an earlier rule [latest]: {text}"
    name = f" {pin.text}" if pin.kind is PinKind.SKILLS else ""
    return f"{_HEADINGS[pin.kind]}{name}: {text}"
