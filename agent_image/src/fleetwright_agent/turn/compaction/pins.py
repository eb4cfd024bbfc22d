"""Pins: text that is shown verbatim after a compaction, taken from its source and never from a summary. Pure.

Standing rules come from the caller's own messages, and skills from their folder. Plans and todos come from the
arguments of the tool call that wrote them. No model summarises pins, so no model can omit a rule.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.compaction import PinKind
from fleetwright_agent.turn.compaction.extraction import sentences
from fleetwright_agent.turn.compaction.rules import Rule as _Rule
from fleetwright_agent.turn.compaction.rules import (
    accepted,
    beginning,
    is_rule,
    names_rule,
    orders_of,
    rules_of,
)
from fleetwright_agent.turn.compaction.text.orders import contradicts
from fleetwright_agent.turn.compaction.text.subjects import Subject, subject_of
from fleetwright_agent.turn.compaction.text.voice import Voice

_ORDER: Final = (PinKind.POLICY, PinKind.PLAN, PinKind.TODOS, PinKind.SKILLS)
MESSAGE_SHARE: Final = 4
"""The rules of one message use at most a quarter of the room."""
_SHORT: Final = 240
_HELD: Final = 400
"""The maximum number of stored rules of one conversation, whether shown or not."""
_PROPOSALS: Final = 12
"""The maximum number of rules that one summary may propose."""
_ORDERS: Final = 20
"""The maximum number of orders of one message that are compared with the rules."""
_ENDS: Final = 0.6
"""A withdrawal ends a rule only if the rule contains at least this fraction of the withdrawal's words."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A rule, a plan, a list of todos, or the name of a skill. The text of a skill is in the skill's folder."""

    kind: PinKind
    text: str
    voice: Voice = Voice.OWN
    withdraws: bool = False
    """True if this pin withdraws an earlier rule."""
    personal: bool = field(default=True, compare=False)
    """True if the text is an order, or mentions the user or the agent."""
    message: str = field(default="", compare=False)
    """The id of the message that contains the pin."""
    begins: str = field(default="", compare=False)
    """The first words of that message."""
    later: str = field(default="", compare=False)
    """A later statement of the user on the same subject, if the summary has no room for that statement."""
    contradicted: str = field(default="", compare=False)
    """A later order of the user that contradicts the rule without withdrawing it."""
    orders: bool = False
    """True for an order that may contradict an earlier rule. Such a pin is never stored."""


def pins_of(messages: Sequence[AnyMessage], kinds: Sequence[PinKind]) -> list[Pin]:
    """The pins of some messages, oldest first."""
    done = {m.tool_call_id for m in messages if isinstance(m, ToolMessage) and m.status != "error"}
    pins: list[Pin] = []
    for message in messages:
        if isinstance(message, HumanMessage):
            pins += [_of_rule(rule, message) for rule in rules_of(message.text)[: _HELD // MESSAGE_SHARE]]
            orders = orders_of(message.text)[:_ORDERS]
            pins += [Pin(PinKind.POLICY, order, message=message.id or "", orders=True) for order in orders]
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


def _of_rule(rule: _Rule, message: HumanMessage) -> Pin:
    begins = beginning(message.text)
    return Pin(PinKind.POLICY, rule.text, rule.voice, rule.withdraws, rule.personal, message.id or "", begins)


def proposed_rules(proposals: Sequence[str], messages: Sequence[AnyMessage]) -> list[Pin]:
    """Return the rules that a summariser proposed, if a message of a user contains them verbatim."""
    if not proposals:
        return []
    said = [message for message in messages if isinstance(message, HumanMessage)]
    pins = [_of_rule(rule, message) for message in said for rule in accepted(proposals, message.text)]
    return pins[-_PROPOSALS:]


def merge_pins(earlier: Sequence[Pin], newer: Sequence[Pin], kinds: Sequence[PinKind]) -> list[Pin]:
    """Return the pins of both lists, without duplicates and ended rules. Only the newest plan and todo list stay."""
    # `earlier` is the result of a previous merge: ended rules are already removed, and their withdrawals are kept.
    kept: dict[Pin, Pin] = {pin: pin for pin in earlier if pin.kind in kinds}
    single = (PinKind.PLAN, PinKind.TODOS)
    for pin in newer:
        if pin.kind not in kinds:
            continue
        if pin.orders:
            kept = {each: _contradicted(each, pin) for each in kept.values()}
            continue
        ended = [each for each in kept if each.kind is pin.kind] if pin.kind in single else _ended(pin, kept)
        if ended is None:
            if not is_rule(pin.text):
                continue
            pin, ended = replace(pin, withdraws=False), []
        kept.pop(pin, None)
        for each in ended:
            kept.pop(each, None)
        kept = {each: each for each in (_without_items(each, pin) for each in kept.values()) if each is not None}
        kept[pin] = _with_object(pin, ended)
    rules = [pin for pin in kept if pin.kind is PinKind.POLICY]
    surplus = set(sorted(rules, key=rank)[: max(0, len(rules) - _HELD)])
    return [pin for pin in kept.values() if pin not in surplus]


def _ended(pin: Pin, known: Mapping[Pin, Pin]) -> list[Pin] | None:
    """Return the pins that a rule or a withdrawal ends, or None if a withdrawal matches no known rule."""
    rules = [each for each in known if each.kind is PinKind.POLICY and each.voice is Voice.OWN]
    if pin.kind is not PinKind.POLICY or pin.voice is not Voice.OWN:
        return []
    about = subject_of(pin.text)
    if not pin.withdraws:
        # If the user states a withdrawn rule again, the withdrawal ends.
        return [each for each in rules if each.withdraws and _covers(about, subject_of(each.text))]
    standing = [each for each in rules if not each.withdraws]
    words = about.words - _OF_WITHDRAWALS
    if not words:
        return standing[-1:]
    ended = [each for each in standing if "\n" not in each.text and _covers(subject_of(each.text), about)]
    if ended or any(_covers(subject_of(each.text), about) for each in standing) or names_rule(pin.text):
        return ended
    return None


def _contradicted(pin: Pin, order: Pin) -> Pin:
    """Return the pin with an order attached, if the order is from another message and contradicts the rule."""
    rule = pin.kind is PinKind.POLICY and pin.voice is Voice.OWN and not pin.withdraws
    if rule and pin.message != order.message and contradicts(order.text, pin.text):
        return replace(pin, contradicted=order.text)
    return pin


def _without_items(listed: Pin, withdrawal: Pin) -> Pin | None:
    """Return a list of rules without the items that a withdrawal names, or None if no item is left."""
    header, *items = listed.text.splitlines()
    if not (items and withdrawal.withdraws and listed.kind is PinKind.POLICY and listed.voice is Voice.OWN):
        return listed
    about = subject_of(withdrawal.text)
    left = [each for each in items if not _is_withdrawn(header, each, about)]
    if len(left) == len(items):
        return listed
    return replace(listed, text="\n".join((header, *left))) if left else None


def _is_withdrawn(header: str, item: str, withdrawal: Subject) -> bool:
    """Return True if a withdrawal contains all words of an item, and few words that the item and its header lack."""
    words = subject_of(item).words
    return bool(words) and words <= withdrawal.words and _covers(subject_of(f"{header} {item}"), withdrawal)


_OF_WITHDRAWALS: Final = frozenset(
    (
        "rul",
        "rule",
        "restriction",
        "limit",
        "ban",
        "instruction",
        "allow",
        "need",
        "drop",
        "appli",
        "apply",
        "valid",
        "hold",
        "lift",
    )
)


def _covers(rule: Subject, withdrawal: Subject) -> bool:
    """Return True if a withdrawal is about a rule: most words of the withdrawal are in the rule."""
    words = withdrawal.words - _OF_WITHDRAWALS
    return bool(words) and len(words & rule.words) >= _ENDS * len(words)


def _with_object(pin: Pin, ended: Sequence[Pin]) -> Pin:
    """Add the ended rule to the text of a withdrawal that names no subject, and return the pin."""
    if not pin.withdraws or not ended or subject_of(pin.text).words - _OF_WITHDRAWALS:
        return pin
    return replace(pin, text=f"{pin.text} (said of: {ended[-1].text})")


def statements(pin: Pin) -> list[str]:
    """Return the sentences of a rule in the form that the ledger uses."""
    return [
        each
        for text in (pin.text, pin.contradicted, pin.later)
        for line in text.splitlines()
        for each in sentences(line)
    ]


def with_later(pin: Pin, later: Mapping[str, str]) -> Pin:
    """Return a rule with the latest statement on its subject attached.

    Args:
        pin: The rule.
        later: The later statement for each sentence that has one; empty if the summary shows that statement.
    """
    found = [later[each] for each in statements(pin) if each in later]
    return replace(pin, later=next(filter(None, reversed(found)), "")) if found else pin


def rank(pin: Pin) -> tuple[bool, int, bool, bool]:
    """Return the rank of a pin: certainly the user's own words first, then rules before plans, then short orders."""
    return (pin.voice is Voice.OWN, -place_of(pin), len(pin.text) <= _SHORT, pin.personal)


def place_of(pin: Pin) -> int:
    return _ORDER.index(pin.kind)
