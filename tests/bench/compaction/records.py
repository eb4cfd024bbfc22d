"""Seeded conversations with content that must survive verbatim: decisions, actions, refusals and open items.

Like `fixtures.py`, this module knows no system under test. The content is the same for all of them.
"""

import random

from tests.bench.compaction.fixtures import (
    Call,
    Conversation,
    Fact,
    Turn,
    any_thing,
    chatter,
    explicit,
    facts,
    log_lines,
)

KINDS = ("decision", "identifier", "file", "error", "done")
TODOS = "write_todos"
ASK = "ask_human"


def typed(seed: int, *, turns: int = 400, each: int = 24) -> Conversation:
    """Return a conversation with so many records of each kind, spread over it. The last tenth has none."""
    chance = random.Random(f"typed {seed}")
    conversation = facts(seed, turns=turns, explicit_facts=0, implicit_facts=0)
    kinds = [kind for kind in KINDS for _ in range(each)]
    chance.shuffle(kinds)
    places = chance.sample(range(int(turns * 0.9)), len(kinds))
    for number, (place, kind) in enumerate(zip(places, kinds, strict=True)):
        conversation.facts.append(_recorded(chance, conversation.turns[place], kind, number))
    return conversation


def _recorded(chance: random.Random, turn: Turn, kind: str, number: int) -> Fact:
    thing, code = any_thing(chance), f"{chance.randint(1000, 9999)}{number}"
    match kind:
        case "decision":
            value = f"we decided to rent the {thing} from depot {code}"
            turn.asked = f"{turn.asked} Yesterday {value}."
            return Fact(value, f"decided {thing} {code}", explicit=True)
        case "identifier":
            sentence, fact = explicit(chance, number)
            turn.answer = f"{turn.answer} {sentence}"
            return fact
        case "file":
            value = f"/srv/{thing}/notes-{code}.md"
            turn.calls.append(Call("read_file", {"path": value}, log_lines(chance, 2)))
        case "error":
            value = f"{thing}-{code} refused the connection"
            turn.calls.append(Call("inspect", {"target": f"{thing}-{code}"}, f"Error: {value}", failed=True))
        case _:
            value = f"courier-{code}"
            turn.calls.append(Call("book_courier", {"order": value}, "It is booked."))
    return Fact(value, f"{thing} {code}", explicit=True)


def entrusted(seed: int, *, turns: int = 40) -> Conversation:
    """Return a conversation with rewritten todos, questions that end a turn, and approvals before long work."""
    chance = random.Random(f"entrusted {seed}")
    made: list[Turn] = []
    for number in range(turns):
        turn = Turn(chatter(chance, 2), answer=chatter(chance, 2))
        if number % 9 == 0:
            items = [f"Check the {any_thing(chance)} of shelf {number}{place}" for place in range(5)]
            turn.calls.append(Call(TODOS, {"items": items}, "Written."))
        if number % 5 == 2:
            question = f"May I refund {number}7 EUR for the {any_thing(chance)}?"
            turn.calls.append(Call(ASK, {"question": question}, f"Yes, up to {number}9 EUR and not a cent more"))
            turn.calls += _work(chance, 16)
        if number % 5 == 4:
            turn.answer = f"{turn.answer} Shall I take the {any_thing(chance)} of row {number} or the older one?"
        turn.calls += _work(chance, chance.randint(0, 3))
        made.append(turn)
    return Conversation(made)


def _work(chance: random.Random, calls: int) -> list[Call]:
    return [Call("inspect", {"page": chance.randint(1, 999)}, log_lines(chance, 6)) for _ in range(calls)]
