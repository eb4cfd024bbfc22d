"""Measures of systems that compact conversations. Each measure returns figures by name.

A measure opens a system with a script and settings, plays the script, and inspects the last prompt.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.bench.compaction import corrections as corpus
from tests.bench.compaction import fixtures, records, summarisers, voices
from tests.bench.compaction.provider import TABLES, Prices, Provider, changes, tokens
from tests.bench.compaction.scripted import Script

Figures = dict[str, float]
SEED = 7
FACT_BUDGET = 0.15


@dataclass(frozen=True)
class Setting:
    """The same budget for every system. Each system keeps the newest twenty messages, as all of them do by default."""

    tokens: int = 100_000_000
    messages: int | None = None
    window: int = 1_000_000
    summary_tokens: int = 4000
    summary_timeout: int = 60
    prune: bool = True
    cheap: bool = True
    """True if the provider has a cache. Systems may read this."""


class System(Protocol):
    script: Script
    failures: list[Exception]
    seconds: float
    """Processor seconds that compaction took, without the model's own part."""

    async def play(self, turns: int | None = None) -> None: ...
    async def say(self, text: str) -> None: ...
    async def recalled(self, question: str) -> str: ...
    async def summary_size(self) -> int: ...
    def compactions(self) -> int:
        """Return the number of summaries."""
        ...

    def changes(self) -> int:
        """Return how often the system changed the beginning of the prompt on purpose."""
        ...


Open = Callable[[Script, Setting], AbstractAsyncContextManager[Any]]


async def facts(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure how many of 200 facts the last prompt shows after 1, 3 and 10 passes, or the recall tool finds."""
    found: Figures = {}
    conversation = fixtures.facts(seed)
    # Each search reads the whole archive again.
    sought = conversation.facts[::5] if quick else conversation.facts
    raw = tokens("".join(t.asked + t.answer + "".join(c.result for c in t.calls) for t in conversation.turns))
    # The summary gets the part of the budget that the newest messages leave.
    summary = int(raw * FACT_BUDGET) - 3000
    for name in ("extractive", "lossy"):
        for passes in (1, 10) if quick else (1, 3, 10):
            script = Script(fixtures.facts(seed), Provider(), _faithful(name, seed, 4 * summary))
            messages = (conversation.messages - 20) // passes + 18
            async with open_system(script, Setting(messages=messages, summary_tokens=summary)) as system:
                await system.play()
                text = "\n".join(script.prompt)
                at = f"{name} {passes}"
                for kind, wanted in (("explicit", True), ("implicit", False)):
                    asked = [fact for fact in conversation.facts if fact.explicit is wanted]
                    found[f"{kind} {at}"] = sum(fact.value in text for fact in asked) / len(asked)
                again = [f.value in text or f.value in await system.recalled(f.question) for f in sought]
                found[f"visible or recallable {at}"] = sum(again) / len(again)
                found[f"prompt over raw {at}"] = tokens(text) / raw
                found[f"passes {at}"] = system.compactions()
    return found


async def ledger(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure how many decisions, identifiers, files, errors and completed actions are visible after ten passes."""
    found: Figures = {}
    conversation = records.typed(seed)
    raw = tokens("".join(t.asked + t.answer + "".join(c.result for c in t.calls) for t in conversation.turns))
    summary = int(raw * FACT_BUDGET) - 3000
    setting = Setting(messages=(conversation.messages - 20) // 10 + 18, summary_tokens=summary)
    for name in ("extractive", "lossy"):
        script = Script(records.typed(seed), Provider(), _faithful(name, seed, 4 * summary))
        async with open_system(script, setting) as system:
            await system.play()
            text = "\n".join(script.prompt)
            found[f"kept {name}"] = sum(fact.value in text for fact in conversation.facts) / len(conversation.facts)
            found[f"passes {name}"] = system.compactions()
    return found


async def corrections(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the share of corrected statements for which the last prompt shows only the old value."""
    found: Figures = {}
    for name in ("extractive", "lossy"):
        for passes in (1, 3):
            # The time grows with the square of the conversation's length.
            size: dict[str, Any] = {"turns": 200, "each": 1, "others": 180} if quick else {}
            conversation, pairs = corpus.corrected(seed, **size)
            setting = Setting(messages=(conversation.messages - 20) // passes + 18)
            script = Script(conversation, Provider(), _faithful(name, seed, summarisers.LIMIT))
            async with open_system(script, setting) as system:
                await system.play()
                text = "\n".join(script.prompt)
                at = f"{name} {passes}"
                found[f"stale only {at}"] = sum(each.stale(text) for each in pairs) / len(pairs)
                found[f"latest shown {at}"] = sum(each.corrected(text) for each in pairs) / len(pairs)
                found[f"passes {at}"] = system.compactions()
    return found


async def rules(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Return how prompts treat withdrawn rules, pasted text, floods of text, and rules in other languages."""
    found: Figures = {}
    script = Script(voices.withdrawn(seed), Provider(), summarisers.brief)
    async with open_system(script, Setting(messages=60)) as system:
        await system.play()
        text = "\n".join(script.prompt)
        stale = [rule in text and withdrawal not in text for rule, withdrawal in voices.WITHDRAWN]
        found["withdrawn rules that stand"] = sum(stale) / len(stale)
        newest = [withdrawal in text for _, withdrawal in voices.WITHDRAWN]
        found["withdrawals shown"] = sum(newest) / len(newest)
    conversation, demands = voices.pasted(seed)
    script = Script(conversation, Provider(), lambda _: "Goal: go on.")
    async with open_system(script, Setting(messages=60)) as system:
        await system.play()
        text = "\n".join(script.prompt)
        found["pasted demands as the user's"] = sum(voices.stands_alone(each, text) for each in demands) / len(demands)
    script = Script(voices.flooded(seed), Provider(window=8000), summarisers.brief)
    async with open_system(script, Setting(tokens=5000, window=8000, summary_tokens=1000)) as system:
        await system.play()
        found["flood: prompts that lost the rule"] = script.wrong["lost rules"]
        found["flood: failed turns"] = len(system.failures)
    script = Script(voices.foreign(seed), Provider(), summarisers.proposing(voices.LANGUAGES))
    async with open_system(script, Setting(messages=60)) as system:
        await system.play()
        text = "\n".join(script.prompt)
        found["other languages: rules shown"] = sum(rule in text for rule in voices.LANGUAGES) / len(voices.LANGUAGES)
    return found


async def entrusted(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the share of prompts that show open todos, questions and approvals verbatim."""
    held: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for number in range(3 if quick else 10):
        script = Script(
            records.entrusted(seed * 100 + number, turns=20 if quick else 40), Provider(), summarisers.lossy(number)
        )
        async with open_system(script, Setting(tokens=(3000, 6000, 12_000)[number % 3], messages=60)) as system:
            await system.play()
        held += script.held
        wrong += script.wrong
    return {f"{name} kept": 1 - wrong[f"lost {name}"] / held[name] for name in held} | {"prompts": held.total()}


def _faithful(name: str, seed: int, limit: int) -> summarisers.Summarise:
    """Return a summariser that may fill the whole budget, so that no system runs short of room."""
    if name == "lossy":
        return summarisers.lossy(seed, limit=limit)
    return lambda text: summarisers.extractive(text, limit)


async def histories(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Count the violations in the prompts of random conversations under triggers of any size."""
    wrong: Counter[str] = Counter()
    prompts = 0
    for number in range(8 if quick else 100):
        chance = random.Random(f"{seed} {number}")
        script = Script(fixtures.any_conversation(seed * 1000 + number), Provider(), summarisers.lossy(number))
        setting = Setting(tokens=chance.choice((1500, 4000, 10_000)), messages=chance.choice((None, 22, 40)))
        async with open_system(script, setting) as system:
            await system.play()
        wrong += script.wrong
        prompts += script.provider.calls
    return {"prompts": prompts, **{name: wrong[name] for name in ("orphans", "lost requests", "lost rules")}}


async def bad(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the share of cases in which a useless summariser changed no prompt and ended no turn."""
    intact, ended = [], []
    long, short = (42, 38) if quick else (60, 45)
    cases = {"empty": summarisers.empty, "failing": summarisers.failing, "inflating": summarisers.inflating}
    for name, summarise in {**cases, "slow": summarisers.extractive}.items():
        script = Script(fixtures.ruled(seed), Provider(), summarise, delay=2.0 if name == "slow" else 0.0)
        async with open_system(script, Setting(messages=90, summary_timeout=1)) as system:
            await system.play(short if name == "slow" else long)
            intact.append(script.provider.breaks == 0)
            ended.append(not system.failures)
    return {"history intact": sum(intact) / len(intact), "turns survive": sum(ended) / len(ended)}


async def recovery(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the recovery from a summariser that fails for 30 messages, with one model call each, and then works
    again.
    """
    script = Script(fixtures.ruled(seed, turns=80), Provider(), summarisers.failing)
    async with open_system(script, Setting(messages=40)) as system:
        await system.play(50)
        broken, failed, long = script.provider.breaks, len(system.failures), len(script.prompt)
        attempts, calls = script.provider.summaries, script.provider.calls
        script.summarise = summarisers.extractive
        while len(script.prompt) > long // 2 and script.provider.calls - calls < _RECOVERS:
            await system.play(1)
        return {
            "failed turns": failed,
            "prompts changed by a failure": broken,
            "attempts": attempts,
            "calls until it is shortened": script.provider.calls - calls,
        }


_RECOVERS = 25


async def malicious(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the effect of a summariser that drops rules and inserts an injected demand."""
    script = Script(fixtures.ruled(seed), Provider(), summarisers.malicious)
    async with open_system(script, Setting(messages=60)) as system:
        await system.play()
        text = "\n".join(script.prompt)
        rules = sum(rule in text for rule in fixtures.RULES) / len(fixtures.RULES)
        elevated = sum(summarisers.INJECTION in said for said in script.systems)
        return {"rules kept": rules, "injections in the system role": elevated, "passes": system.compactions()}


async def successive(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the size of the summary over fifty successive compactions, and whether it keeps growing."""
    sizes: list[int] = []
    turns = 250 if quick else 1100
    conversation = fixtures.facts(seed, turns=turns, explicit_facts=turns * 3 // 11, implicit_facts=turns * 3 // 55)
    script = Script(conversation, Provider(), summarisers.extractive)
    async with open_system(script, Setting(messages=70 if quick else 72, summary_tokens=4000)) as system:
        for _ in range(turns):
            before = system.compactions()
            await system.play(1)
            if system.compactions() > before:
                sizes.append(await system.summary_size())
    later = sizes[len(sizes) // 2 :] or [0]
    growth = max(later) / later[0] if later[0] else 1.0
    return {"passes": len(sizes), "largest summary over the cap": max(sizes, default=0) / 16_000, "growth": growth}


async def floor(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the behaviour for a request that no compaction can make fit."""
    conversation = fixtures.ruled(seed, turns=30)
    conversation.turns[-1].asked = fixtures.chatter(random.Random(seed), 800)
    script = Script(conversation, Provider(window=6000), summarisers.brief)
    async with open_system(script, Setting(tokens=4500, window=6000, summary_tokens=1000)) as system:
        await system.play(29)
        provider = script.provider
        before = (provider.summaries, provider.refused, len(system.failures))
        await system.play(1)
        words = "".join(str(failure) for failure in system.failures[before[2] :]).lower()
        return {
            "summariser calls": provider.summaries - before[0],
            "refused calls": provider.refused - before[1],
            "original error": float("context" in words),
        }


async def prefix(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure how often the beginning of the prompt changed for each compaction."""
    script = Script(fixtures.work(seed, turns=15), Provider(), summarisers.brief)
    async with open_system(script, Setting(tokens=30_000)) as system:
        await system.play()
        events = system.changes()
        return {"breaks for each event": script.provider.breaks / max(1, events), "events": events}


async def cost(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the cost of a tool-heavy task with the cap at T*, relative to no compaction and to the ideal policy."""
    found: Figures = {}
    conversation = fixtures.work(seed, turns=16 if quick else 40)
    raw = await _played(open_system, Setting(), conversation)
    for prices in TABLES[:1] if quick else TABLES:
        cap = best_trigger(prices, conversation)
        ours = await _played(open_system, Setting(tokens=cap), conversation)
        found[f"over raw, {prices.name}"] = ours.cost(prices) / raw.cost(prices)
        found[f"over T*, {prices.name}"] = ours.cost(prices) / ideal(conversation, prices, cap)
        unpruned = await _played(open_system, Setting(tokens=cap, prune=False), conversation)
        found[f"pruned over not, {prices.name}"] = ours.cost(prices) / unpruned.cost(prices)
        early = [each for each in changes(ours.log, prices) if each.size < _EARLY * cap and each.calls >= _JUDGED]
        found[f"early passes, {prices.name}"] = len(early)
        found[f"early passes below break-even, {prices.name}"] = sum(not each.paid for each in early)
    return found


async def _played(open_system: Open, setting: Setting, conversation: fixtures.Conversation) -> Provider:
    script = Script(conversation, Provider(), summarisers.brief)
    async with open_system(script, setting) as system:
        await system.play()
    return script.provider


_EARLY = 0.9
"""A fraction of the trigger. Below it no compaction was due under any estimate of the tokens."""
_JUDGED = 10
"""Calls that must follow a pass before it is judged. The future of a conversation that has just ended is unknown."""
_SUMMARY, _TAIL = 1500, 0.15 / 0.8


def best_trigger(prices: Prices, conversation: fixtures.Conversation) -> int:
    """Return T* = F + sqrt(2 g (F + A / r)), where g is the growth of the prompt at each call."""
    calls = sum(len(turn.calls) + 1 for turn in conversation.turns)
    said = sum(tokens(t.asked + t.answer) + sum(tokens(c.result) for c in t.calls) for t in conversation.turns)
    growth, fixed = said / calls, 200 + _SUMMARY
    tail = 4000
    spent = (prices.output + prices.cache_write) * _SUMMARY + (prices.cache_write - prices.cache_read) * tail
    return int(fixed + (2 * growth * (fixed + spent / prices.cache_read)) ** 0.5)


def ideal(conversation: fixtures.Conversation, prices: Prices, cap: int) -> float:
    """Return the cost of a policy that, at the cap, keeps a summary on the warm prefix and the newest part."""
    provider, prompt = Provider(), ["system " * 100]

    def call() -> None:
        nonlocal prompt
        if sum(map(tokens, prompt)) >= cap:
            provider.take([*prompt, "summarise"], summary=True)
            provider.give("s" * 4 * _SUMMARY)
            kept: list[str] = []
            while len(kept) + 2 < len(prompt) and sum(map(tokens, kept)) < _TAIL * cap:
                kept.insert(0, prompt[-1 - len(kept)])
            prompt = [prompt[0], "s" * 4 * _SUMMARY, *kept]
        provider.take(prompt, summary=False)

    for turn in conversation.turns:
        prompt.append(turn.asked)
        for made in turn.calls:
            call()
            provider.give(made.name)
            prompt += [made.name, made.result]
        call()
        provider.give(turn.answer)
        prompt.append(turn.answer)
    return provider.cost(prices)


async def speed(open_system: Open, *, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the processor milliseconds of a model call at 800 messages, without the model, when no compaction is due.

    The minimum of several turns counts, because all systems are measured at the same time.
    """
    conversation = fixtures.work(seed, turns=100, calls=6)
    script = Script(conversation, Provider(), summarisers.brief)
    async with open_system(script, Setting()) as system:
        while sum(2 + 2 * len(t.calls) for t in conversation.turns[: script.turn + 1]) < 800:
            await system.play(1)
        measured = []
        for _ in range(5):
            calls, seconds = script.provider.calls, system.seconds
            await system.play(1)
            measured.append((system.seconds - seconds) / (script.provider.calls - calls))
    return {"ms a call": min(measured) * 1000}


ALL = (
    "histories",
    "facts",
    "ledger",
    "corrections",
    "rules",
    "entrusted",
    "bad",
    "recovery",
    "malicious",
    "successive",
    "floor",
    "prefix",
    "cost",
    "speed",
)


async def run(open_system: Open, names: Sequence[str], *, quick: bool = False, seed: int = SEED) -> dict[str, Figures]:
    return {name: await globals()[name](open_system, quick=quick, seed=seed) for name in names}
