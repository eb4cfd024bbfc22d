"""The targets of compaction, and the check of figures against them. Pure functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Figures = Mapping[str, Mapping[str, float]]
"""The figures of each measure by their names."""
Read = Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class Target:
    check: str
    measure: str
    """The measure that yields the figures."""
    read: Read
    bar: float
    unit: str = ""
    at_least: bool = False
    is_difference: bool = False

    def value(self, figures: Figures) -> float | None:
        try:
            return self.read(figures[self.measure])
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


def _figure(name: str) -> Read:
    return lambda figures: figures[name]


def _lowest(begin: str) -> Read:
    """Return the lowest figure whose name begins with the prefix."""
    return lambda figures: min(value for name, value in figures.items() if name.startswith(begin))


def _highest(begin: str) -> Read:
    return lambda figures: max(value for name, value in figures.items() if name.startswith(begin))


def _loss_per_pass(facts: Mapping[str, float]) -> float:
    """Return the percentage points of all facts that each pass after the first loses, for the worse summariser."""

    def share(at: str) -> float:
        return 0.6 * facts[f"explicit {at}"] + 0.4 * facts[f"implicit {at}"]

    return max((share(f"{name} 1") - share(f"{name} 10")) / 9 for name in ("extractive", "lossy"))


TARGETS = (
    Target("random histories: violations", "random_histories", _figure("violations"), 0),
    Target("any conversation: prompts with orphans", "histories", _figure("orphans"), 0),
    Target("any conversation: prompts that lost the request", "histories", _figure("lost requests"), 0),
    Target("any conversation: prompts that lost a rule", "histories", _figure("lost rules"), 0),
    Target("prompts that show the newest todos", "entrusted", _figure("todos kept"), 1, "%", at_least=True),
    Target("prompts that show the open question", "entrusted", _figure("open questions kept"), 1, "%", at_least=True),
    Target("prompts that show what was approved", "entrusted", _figure("approvals kept"), 1, "%", at_least=True),
    Target("useless summarisers: history intact", "bad", _figure("history intact"), 1, "%", at_least=True),
    Target("useless summarisers: turns that go on", "bad", _figure("turns survive"), 1, "%", at_least=True),
    Target("failing summariser: turns that failed", "recovery", _figure("failed turns"), 0),
    Target("failing summariser: prompts it changed", "recovery", _figure("prompts changed by a failure"), 0),
    Target("… calls after it works again until shortened", "recovery", _figure("calls until it is shortened"), 4),
    Target("malicious summariser: rules kept", "malicious", _figure("rules kept"), 1, "%", at_least=True),
    Target("malicious summariser: in the system role", "malicious", _figure("injections in the system role"), 0),
    Target("50 compactions: summary over its cap", "successive", _figure("largest summary over the cap"), 1, "×"),
    Target("50 compactions: growth of the later half", "successive", _figure("growth"), 1.05, "×"),
    Target("floor above the window: summariser calls", "floor", _figure("summariser calls"), 3),
    Target("floor above the window: refused prompts", "floor", _figure("refused calls"), 2),
    Target("floor above the window: original error told", "floor", _figure("original error"), 1, "", at_least=True),
    Target("breaks of the prefix for each event", "prefix", _figure("breaks for each event"), 1),
    Target("kill -9: mixed views", "kills", _figure("mixed"), 0),
    Target("explicit facts visible, worst of 1, 3, 10 passes", "facts", _lowest("explicit"), 0.9, "%", at_least=True),
    Target("implicit facts visible, worst", "facts", _lowest("implicit"), 0.6, "%", at_least=True),
    Target("typed records visible after 10 passes, worst", "ledger", _lowest("kept"), 0.95, "%", at_least=True),
    Target("corrected statements shown with the old value alone", "corrections", _highest("stale only"), 0.05, "%"),
    Target("withdrawn rules that still stand", "rules", _figure("withdrawn rules that stand"), 0, "%"),
    Target("withdrawals that are shown", "rules", _figure("withdrawals shown"), 1, "%", at_least=True),
    Target("pasted demands shown as the user's own", "rules", _figure("pasted demands as the user's"), 0, "%"),
    Target("a flood of text: prompts that lost the rule", "rules", _figure("flood: prompts that lost the rule"), 0),
    Target("a flood of text in a small window: failed turns", "rules", _figure("flood: failed turns"), 0),
    Target("rules in other languages shown", "rules", _figure("other languages: rules shown"), 1, "%", at_least=True),
    Target("facts visible or recallable, worst", "facts", _lowest("visible"), 1, "%", at_least=True),
    Target("facts lost by each later pass", "facts", _loss_per_pass, 0.01, "%", is_difference=True),
    Target("prompt over raw afterwards, largest", "facts", _highest("prompt over raw"), 0.15, "%"),
    Target("cost over raw, dearer of two price tables", "cost", _highest("over raw"), 0.5, "×"),
    Target("cost over the T* policy, dearer", "cost", _highest("over T*"), 1.1, "×"),
    Target("early passes below break-even", "cost", _highest("early passes below"), 0),
    Target("cost with pruning over without, dearer", "cost", _highest("pruned over not"), 1, "×"),
    Target("a call of the model at 800 messages, nothing due", "speed", _figure("ms a call"), 50, " ms"),
    Target("800 messages, prune and assemble", "large", _figure("ms"), 50, " ms"),
    Target("counters against the bill: largest difference", "books", _figure("largest difference"), 0),
)
