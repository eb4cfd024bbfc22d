"""Statements that a user corrects later, in many phrasings, and the conversations that hold them.

This module knows no system under test. It was written before any system was tuned to it.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench.compaction.fixtures import Conversation, facts


@dataclass(frozen=True)
class Phrasing:
    """A statement and its correction, with places for a subject and both values."""

    name: str
    earlier: str
    later: str
    values: str
    """The kind of the values: "number", "person", "date", "hour" or "none"."""
    follows: bool = False
    """True if the correction makes sense only right after the statement."""
    by_agent: bool = False
    """True if the agent made the earlier statement."""


PHRASINGS = (
    Phrasing(
        "correction",
        "The {s} warehouse of Messrs {a} and {b} holds {old} pallets.",
        "Correction: the {s} warehouse holds {new} pallets.",
        "number",
    ),
    Phrasing(
        "restatement",
        "The {s} warehouse of Messrs {a} and {b} stores {old} barrels.",
        "The {s} warehouse stores {new} barrels.",
        "number",
    ),
    Phrasing(
        "actually",
        "The deposit for the {s} mill is {old} EUR.",
        "Actually, the deposit for the {s} mill is {new} EUR.",
        "number",
    ),
    Phrasing(
        "no longer",
        "The {s} depot has {old} crates in stock.",
        "The {s} depot no longer has {old} crates, it has {new}.",
        "number",
    ),
    Phrasing("now", "The {s} ferry carries {old} cars.", "The {s} ferry now carries {new} cars.", "number"),
    Phrasing("scratch that", "Order {old} spools from {s}.", "Scratch that, order {new} spools from {s}.", "number"),
    Phrasing("make that", "Put {old} lamps on the list for {s}.", "Make that {new} lamps for {s}.", "number"),
    Phrasing("I meant", "{s} pays {old} EUR a month.", "Sorry, I meant {new} EUR a month for {s}.", "number"),
    Phrasing(
        "I was wrong",
        "The tank at {s} takes {old} litres.",
        "I was wrong about the tank at {s}: it takes {new} litres.",
        "number",
    ),
    Phrasing(
        "not but",
        "The {s} contract runs for {old} weeks.",
        "Not {old} but {new} weeks for the {s} contract.",
        "number",
    ),
    Phrasing(
        "raised to", "The limit for {s} is {old} units.", "The limit for {s} was raised to {new} units.", "number"
    ),
    Phrasing(
        "turns out",
        "There are {old} seats in the {s} hall.",
        "It turns out there are {new} seats in the {s} hall.",
        "number",
    ),
    Phrasing(
        "as of today",
        "The {s} bridge bears {old} kilos.",
        "As of today the maximum load of the {s} bridge is {new} kilos.",
        "number",
    ),
    Phrasing(
        "correct what I said",
        "The {s} kiln fires at {old} degrees.",
        "I have to correct what I said about the {s} kiln. It fires at {new} degrees.",
        "number",
    ),
    Phrasing("question", "Book {old} rooms in {s}.", "Could you book {new} rooms in {s} instead?", "number"),
    Phrasing(
        "that is wrong",
        "The {s} account shows {old} EUR.",
        "That is wrong, the {s} account shows {new} EUR.",
        "number",
        by_agent=True,
    ),
    Phrasing(
        "instead of",
        "{old} signs for the {s} boiler.",
        "{new} signs for the {s} boiler instead of {old}.",
        "person",
    ),
    Phrasing("another name", "{old} is the contact at {s}.", "{new} is the contact at {s}.", "person"),
    Phrasing("has left", "{old} leads the {s} crew.", "{old} has left, {new} leads the {s} crew now.", "person"),
    Phrasing(
        "renamed",
        "The {s} project is called {old}.",
        "We renamed the {s} project: it is called {new} from today.",
        "person",
    ),
    Phrasing("replaced by", "The supplier of {s} is {old}.", "The supplier of {s} was replaced by {new}.", "person"),
    Phrasing("it is who", "{old} has the key to {s}.", "It is {new} who has the key to {s}.", "person"),
    Phrasing("moved to", "The inspection of {s} is on {old}.", "The inspection of {s} has moved to {new}.", "date"),
    Phrasing("postponed", "The {s} audit starts on {old}.", "The {s} audit is postponed until {new}.", "date"),
    Phrasing("another date", "The lease of {s} ends on {old}.", "The lease of {s} ends on {new}.", "date"),
    Phrasing("update", "Deliveries to {s} arrive at {old}.", "Update: deliveries to {s} arrive at {new}.", "hour"),
    Phrasing("does not", "The lift in {s} works.", "The lift in {s} does not work any more.", "none"),
    Phrasing("contraction", "{s} accepts cards.", "{s} doesn’t accept cards any longer.", "none"),
    Phrasing("opposite", "The gate at {s} is open on Sundays.", "The gate at {s} is closed on Sundays.", "none"),
    Phrasing("no longer at all", "We ship parcels to {s}.", "We no longer ship parcels to {s}.", "none"),
    Phrasing("no wait", "The {s} order comes to {old} EUR.", "No wait, it is {new} EUR.", "number", follows=True),
    Phrasing("make that alone", "The visit to {s} is on {old}.", "Make that {new}.", "date", follows=True),
    Phrasing("I meant alone", "{old} drives the {s} van.", "Sorry, I meant {new}.", "person", follows=True),
    Phrasing(
        "pronoun",
        "The {s} silo holds {old} tonnes.",
        "It only holds {new} tonnes, I checked.",
        "number",
        follows=True,
    ),
    Phrasing(
        "file",
        "The plans for {s} lie in /srv/plans/{old}.pdf.",
        "The plans for {s} lie in /srv/plans/{new}.pdf, the other file is outdated.",
        "number",
    ),
)


@dataclass(frozen=True)
class Pair:
    """One statement and its correction."""

    phrasing: Phrasing
    earlier: str
    later: str
    old: str
    """The visible part of the earlier statement alone: its value, or all of it."""
    new: str

    def stale(self, prompt: str) -> bool:
        """Return whether a prompt shows the old value and not the new one."""
        return _shows(prompt, self.old) and not _shows(prompt, self.new)

    def corrected(self, prompt: str) -> bool:
        """Return whether a prompt shows the new value."""
        return _shows(prompt, self.new)


def _shows(prompt: str, value: str) -> bool:
    """Return whether a prompt shows a value by itself, and not as a part of a longer number or word."""
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", prompt) is not None


_BEGIN = (
    "Hal",
    "Tor",
    "Ver",
    "Mor",
    "Kel",
    "Dun",
    "Ash",
    "Bra",
    "Cor",
    "Fen",
    "Gor",
    "Lam",
    "Nor",
    "Pel",
    "Quen",
    "Ros",
)
_MIDDLE = ("mar", "va", "lin", "do", "sto", "wi", "ber", "ta", "ne", "ga", "ri", "so")
_END = ("ck", "ne", "ford", "low", "dale", "mere", "wick", "gate", "stead", "by", "ton", "holm")


def coined(chance: random.Random) -> str:
    """Return a unique name."""
    return chance.choice(_BEGIN) + chance.choice(_MIDDLE) + chance.choice(_MIDDLE) + chance.choice(_END)


_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_VALUES: dict[str, Callable[[random.Random], str]] = {
    "number": lambda chance: str(chance.randint(200, 99_999)),
    "person": lambda chance: f"{coined(chance)} {coined(chance)}",
    "date": lambda chance: f"{chance.randint(1, 28)} {chance.choice(_MONTHS)} {chance.randint(2031, 2089)}",
    "hour": lambda chance: f"{chance.randint(10, 23)}:{chance.randint(10, 59)}:{chance.randint(10, 59)}",
    "none": lambda _: "",
}


def pair(chance: random.Random, phrasing: Phrasing) -> Pair:
    draw = _VALUES[phrasing.values]
    old, new = draw(chance), draw(chance)
    names = {"s": coined(chance), "a": coined(chance), "b": coined(chance), "old": old, "new": new}
    earlier, later = phrasing.earlier.format(**names), phrasing.later.format(**names)
    if phrasing.values == "none":
        return Pair(phrasing, earlier, later, earlier, later)
    return Pair(phrasing, earlier, later, old, new)


def corrected(
    seed: int, *, turns: int = 400, each: int = 2, others: int = 360, phrasings: Sequence[Phrasing] = PHRASINGS
) -> tuple[Conversation, list[Pair]]:
    """Return a long conversation with lasting facts and statements that are corrected later, and the pairs of those."""
    chance = random.Random(f"corrected {seed}")
    conversation = facts(seed, turns=turns, explicit_facts=others * 3 // 4, implicit_facts=others // 4)
    pairs = [pair(chance, phrasing) for phrasing in phrasings for _ in range(each)]
    for made in pairs:
        first = chance.randrange(0, int(turns * 0.6))
        # The last tenth holds none: a statement in the newest messages does not test memory.
        second = first if made.phrasing.follows else chance.randrange(first + 5, int(turns * 0.9))
        earlier = conversation.turns[first]
        if made.phrasing.by_agent:
            earlier.answer = f"{earlier.answer} {made.earlier}"
        else:
            earlier.asked = f"{earlier.asked} {made.earlier}"
        later = conversation.turns[second + 1 if made.phrasing.follows and chance.random() < 0.5 else second]
        later.asked = f"{made.later} {later.asked}" if later is not earlier else f"{later.asked} {made.later}"
    return conversation, pairs
