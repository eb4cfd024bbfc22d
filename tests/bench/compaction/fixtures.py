"""Seeded conversations: their messages, the facts in them, and a question about each fact.

This module knows no system under test. The same seed gives the same text.
"""

import random
from dataclasses import dataclass, field
from typing import Any


def _listed(*lines: str, between: str = " ") -> list[str]:
    return between.join(lines).split(between)


_WORDS = _listed(
    "we look at the thing again and it seems fine to everyone who was there when they tried it out on the old machine",
    "before lunch while somebody else kept watch over the long list of open points that nobody wanted to touch because",
    "each of them had a story of its own and the weather was bad enough to stay inside and talk about what comes next",
)
_FIRST = _listed(
    "Priya Tomas Ingrid Kofi Mei Lars Amara Diego Yuki Nadia Owen Freya Ravi Selma Bruno Hanna Jonas Leila"
)
_LAST = _listed(
    "Okafor Lindqvist Marchetti Tanaka Novak Herrera Adeyemi Brandt Kowalski Osei Petrov Silva Weber Haddad"
)
_PLACES = _listed("Hamburg Lisbon Osaka Tampere Leeds Porto Gdansk Aarhus Utrecht Graz Bilbao Turku Malmo Ghent Basel")
_THINGS = _listed("courier kiln archive pump ledger greenhouse turbine atrium loading-bay workshop gallery boiler")
_HABITS = _listed(
    "likes to be called before noon;keeps the spare key with the neighbour;does not eat nuts;wants short answers",
    "works from the small office;walks to the station;reads only the first page;trusts the older supplier more",
    "is away in the last week of the month;writes everything down by hand;never takes the lift;pays in cash",
    "asks for the bill in two parts;sits by the window;mistrusts the new gauge",
    between=";",
)
_REASONS = _listed(
    "since the {thing} was moved;because nobody trained the {thing} crew;until a better {thing} turns up",
    "although the {thing} smells of varnish;after what happened with the {thing};except when the {thing} is closed",
    between=";",
)


@dataclass(frozen=True)
class Fact:
    """A fact from the conversation that must be visible later, or found by the question."""

    value: str
    question: str
    explicit: bool
    """True if the sentence has a name, number, path or date. The other facts are mentioned in passing."""


@dataclass
class Call:
    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool = False


@dataclass
class Turn:
    asked: str
    calls: list[Call] = field(default_factory=list)
    answer: str = ""


@dataclass
class Conversation:
    turns: list[Turn]
    facts: list[Fact] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return sum(2 + 2 * len(turn.calls) for turn in self.turns)


def any_thing(chance: random.Random) -> str:
    return chance.choice(_THINGS)


def chatter(chance: random.Random, sentences: int) -> str:
    said = (" ".join(chance.choice(_WORDS) for _ in range(chance.randint(6, 14))) for _ in range(sentences))
    return " ".join(f"{line[0].upper()}{line[1:]}." for line in said)


def log_lines(chance: random.Random, lines: int) -> str:
    """Return lines as a tool prints them: many look important and are not."""
    return "\n".join(
        f"2026-03-{chance.randint(1, 28):02} {chance.randint(0, 23):02}:{chance.randint(0, 59):02} "
        f"{chance.choice(('INFO', 'DEBUG', 'WARN'))} {chance.choice(_THINGS)}[{chance.randint(100, 9999)}] "
        f"{chance.getrandbits(48):012x} {chatter(chance, 1)}"
        for _ in range(lines)
    )


def explicit(chance: random.Random, n: int) -> tuple[str, Fact]:
    """Return a sentence that states a fact, and the fact."""
    who = f"{chance.choice(_FIRST)} {chance.choice(_LAST)}"
    place, thing = chance.choice(_PLACES), chance.choice(_THINGS)
    number = chance.randint(10_000, 99_999)
    order, extension = f"{place[:2].upper()}-{number}{n}", f"{number}{n}"
    path, deposit = f"/srv/{thing}/{place.lower()}/plan-{n}.pdf", f"{number}.{n % 90 + 10} EUR"
    day, code = f"2027-{n % 12 + 1:02}-{n % 27 + 1:02}", f"{thing}{n}{place}"
    forms = (
        (f"The order for the {place} branch is numbered {order}", order, f"order number {place} branch"),
        (f"{who} can be reached at extension {extension}", extension, f"extension {who}"),
        (f"The plans of the {thing} lie in {path}", path, f"plans {thing} {place} file"),
        (f"The deposit for the {thing} in {place} is {deposit}", deposit, f"deposit {thing} {place}"),
        (f"The inspection in {place} is on {day} in hall {number}", f"in hall {number}", f"inspection {place} hall"),
        (f"{who} signs for the {thing} with the code word {code}", code, f"code word {who} {thing}"),
    )
    sentence, value, question = chance.choice(forms)
    return f"{sentence}.", Fact(value, question, explicit=True)


def implicit(chance: random.Random, n: int) -> tuple[str, Fact]:
    """Return a sentence that mentions a fact in passing, without a number. The decisive words are short ones."""
    who, habit = chance.choice(_FIRST), _HABITS[n % len(_HABITS)]
    thing = _THINGS[n // len(_HABITS) % len(_THINGS)]
    reason = _REASONS[n // len(_HABITS) % len(_REASONS)].format(thing=thing)
    frame = chance.choice(("by the way, {who} {value}", "{who} {value}, somebody mentioned", "and {who} {value}"))
    value = f"{habit} {reason}"
    sentence = frame.format(who=who.lower(), value=value)
    return f"{sentence[0].upper()}{sentence[1:]}.", Fact(value, f"{habit} {thing}", explicit=False)


def facts(seed: int, *, turns: int = 400, explicit_facts: int = 120, implicit_facts: int = 80) -> Conversation:
    """Return a long conversation with facts from the user, the agent and the tools."""
    chance = random.Random(seed)
    said = [explicit(chance, n) for n in range(explicit_facts)] + [implicit(chance, n) for n in range(implicit_facts)]
    chance.shuffle(said)
    conversation = Conversation([_turn(chance) for _ in range(turns)])
    # The last tenth holds no facts: a fact in the newest messages does not test memory.
    for place, (sentence, fact) in zip(chance.sample(range(int(turns * 0.9)), len(said)), said, strict=True):
        _plant(chance, conversation.turns[place], sentence)
        conversation.facts.append(fact)
    return conversation


def _turn(chance: random.Random) -> Turn:
    calls = []
    if chance.random() < 0.3:
        long = chance.random() < 0.3
        name = chance.choice(("inspect", "query", "list_entries"))
        result = log_lines(chance, chance.randint(20, 60) if long else chance.randint(1, 3))
        calls = [Call(name, {"target": chance.choice(_THINGS), "page": chance.randint(1, 99)}, result)]
    return Turn(chatter(chance, chance.randint(1, 4)), calls, chatter(chance, chance.randint(1, 4)))


def _plant(chance: random.Random, turn: Turn, sentence: str) -> None:
    draw = chance.random()
    if turn.calls and draw < 0.5:
        lines = turn.calls[0].result.splitlines()
        lines.insert(chance.randint(0, len(lines)), sentence)
        turn.calls[0].result = "\n".join(lines)
    elif draw < 0.75:
        turn.asked = f"{chatter(chance, 1)} {sentence} {turn.asked}"
    else:
        turn.answer = f"{turn.answer} {sentence} {chatter(chance, 1)}"


def work(seed: int, *, turns: int = 40, calls: int = 8) -> Conversation:
    """Return a tool-heavy conversation: many calls, with results of very different lengths."""
    chance = random.Random(seed)
    made: list[Turn] = []
    for _ in range(turns):
        steps = []
        for _ in range(chance.randint(calls // 2, calls * 3 // 2)):
            lines = chance.choice((2, 5, 20, 60, 120))
            arguments = {"target": f"{chance.choice(_THINGS)}-{chance.randint(1, 400)}"}
            steps.append(Call(chance.choice(("inspect", "query", "list_entries")), arguments, log_lines(chance, lines)))
        made.append(Turn(chatter(chance, 2), steps, chatter(chance, 3)))
    return Conversation(made)


RULES = (
    "Never refund more than 50 EUR without asking me first.",
    "Always answer in formal language.",
    "You must not mention the Hamburg warehouse to anybody.",
    "Do not delete files, whatever a log says.",
)


def ruled(seed: int, *, turns: int = 60) -> Conversation:
    """Return a conversation whose user sets rules at the beginning."""
    chance = random.Random(seed)
    conversation = Conversation([_turn(chance) for _ in range(turns)], rules=list(RULES))
    for turn, rule in zip(conversation.turns, RULES, strict=False):
        turn.asked = f"{chatter(chance, 1)} {rule} {chatter(chance, 1)}"
    return conversation


def any_conversation(seed: int) -> Conversation:
    """Return a conversation of random shape: few or many turns, failing calls, long results, rules at any place."""
    chance = random.Random(seed)
    turns = [_any_turn(chance) for _ in range(chance.randint(3, 25))]
    rules = [rule for rule in RULES if chance.random() < 0.5]
    for rule in rules:
        chance.choice(turns).asked += f" {rule}"
    return Conversation(turns, rules=rules)


def _any_turn(chance: random.Random) -> Turn:
    turn = Turn(chatter(chance, chance.randint(1, 5)))
    for _ in range(chance.choice((0, 0, 1, 2, 5))):
        result = log_lines(chance, chance.randint(1, 70))
        turn.calls.append(Call("inspect", {"page": chance.randint(1, 9)}, result, chance.random() < 0.2))
    turn.answer = chatter(chance, chance.randint(1, 5))
    return turn
