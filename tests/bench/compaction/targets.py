"""The targets of compaction, and the check of figures against them. Pure functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Reading:
    """The way to read one value from the figures of a measure."""

    measure: str
    read: Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class Target:
    check: str
    reading: Reading
    bar: float
    unit: str = ""
    at_least: bool = False

    @property
    def measure(self) -> str:
        """The name of the measure."""
        return self.reading.measure

    def value(self, figures: Figures) -> float | None:
        try:
            return self.reading.read(figures[self.measure])
        except (KeyError, ValueError):
            return None

    def holds(self, figures: Figures) -> bool:
        value = self.value(figures)
        return value is not None and (value >= self.bar if self.at_least else value <= self.bar)

    @property
    def promise(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {told(self.bar, self.unit)}"


def told(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "%":
        return f"{value * 100:.3g} %"
    return f"{value:.0f}{unit}" if value >= 1000 else f"{value:.3g}{unit}"


def _of(measure: str, name: str) -> Reading:
    return Reading(measure, lambda figures: figures[name])


def _worst(measure: str, *begin: str) -> Reading:
    """Return the worst figure whose name begins with the prefix; the lowest where more is better."""
    return Reading(measure, lambda figures: min(v for name, v in figures.items() if name.startswith(begin)))


def _most(measure: str, *begin: str) -> Reading:
    return Reading(measure, lambda figures: max(v for name, v in figures.items() if name.startswith(begin)))


def _lost_a_pass(facts: Mapping[str, float]) -> float:
    """Return the percentage points of all facts that each pass after the first loses, for the worse summariser."""

    def share(at: str) -> float:
        return 0.6 * facts[f"explicit {at}"] + 0.4 * facts[f"implicit {at}"]

    return max((share(f"{name} 1") - share(f"{name} 10")) / 9 for name in ("extractive", "lossy"))


TARGETS = (
    Target("random histories: violations", _of("random_histories", "violations"), 0),
    Target("any conversation: prompts with orphans", _of("histories", "orphans"), 0),
    Target("any conversation: prompts that lost the request", _of("histories", "lost requests"), 0),
    Target("any conversation: prompts that lost a rule", _of("histories", "lost rules"), 0),
    Target("prompts that show the newest todos", _of("entrusted", "todos kept"), 1, "%", at_least=True),
    Target("prompts that show the open question", _of("entrusted", "open questions kept"), 1, "%", at_least=True),
    Target("prompts that show what was approved", _of("entrusted", "approvals kept"), 1, "%", at_least=True),
    Target("useless summarisers: history intact", _of("bad", "history intact"), 1, "%", at_least=True),
    Target("useless summarisers: turns that go on", _of("bad", "turns survive"), 1, "%", at_least=True),
    Target("failing summariser: turns that failed", _of("recovery", "failed turns"), 0),
    Target("failing summariser: prompts it changed", _of("recovery", "prompts changed by a failure"), 0),
    Target("… calls after it works again until shortened", _of("recovery", "calls until it is shortened"), 4),
    Target("malicious summariser: rules kept", _of("malicious", "rules kept"), 1, "%", at_least=True),
    Target("malicious summariser: in the system role", _of("malicious", "injections in the system role"), 0),
    Target("50 compactions: summary over its cap", _of("successive", "largest summary over the cap"), 1, "×"),
    Target("50 compactions: growth of the later half", _of("successive", "growth"), 1.05, "×"),
    Target("floor above the window: summariser calls", _of("floor", "summariser calls"), 3),
    Target("floor above the window: refused prompts", _of("floor", "refused calls"), 2),
    Target("floor above the window: original error told", _of("floor", "original error"), 1, "", at_least=True),
    Target("breaks of the prefix for each event", _of("prefix", "breaks for each event"), 1),
    Target("kill -9: mixed views", _of("kills", "mixed"), 0),
    Target("explicit facts visible, worst of 1, 3, 10 passes", _worst("facts", "explicit"), 0.9, "%", at_least=True),
    Target("implicit facts visible, worst", _worst("facts", "implicit"), 0.6, "%", at_least=True),
    Target("typed records visible after 10 passes, worst", _worst("ledger", "kept"), 0.95, "%", at_least=True),
    Target("corrected statements shown with the old value alone", _most("corrections", "stale only"), 0.05, "%"),
    Target("withdrawn rules that still stand", _of("rules", "withdrawn rules that stand"), 0, "%"),
    Target("withdrawals that are shown", _of("rules", "withdrawals shown"), 1, "%", at_least=True),
    Target("pasted demands shown as the user's own", _of("rules", "pasted demands as the user's"), 0, "%"),
    Target("a flood of text: prompts that lost the rule", _of("rules", "flood: prompts that lost the rule"), 0),
    Target("a flood of text in a small window: failed turns", _of("rules", "flood: failed turns"), 0),
    Target("rules in other languages shown", _of("rules", "other languages: rules shown"), 1, "%", at_least=True),
    Target("facts visible or recallable, worst", _worst("facts", "visible"), 1, "%", at_least=True),
    Target("facts lost by each later pass", Reading("facts", _lost_a_pass), 0.01, "%"),
    Target("prompt over raw afterwards, largest", _most("facts", "prompt over raw"), 0.15, "%"),
    Target("cost over raw, dearer of two price tables", _most("cost", "over raw"), 0.5, "×"),
    Target("cost over the T* policy, dearer", _most("cost", "over T*"), 1.1, "×"),
    Target("early passes below break-even", _most("cost", "early passes below"), 0),
    Target("cost with pruning over without, dearer", _most("cost", "pruned over not"), 1, "×"),
    Target("a call of the model at 800 messages, nothing due", _of("speed", "ms a call"), 50, " ms"),
    Target("800 messages, prune and assemble", _of("large", "ms"), 50, " ms"),
    Target("counters against the bill: largest difference", _of("books", "largest difference"), 0),
)
