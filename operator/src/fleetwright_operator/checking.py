"""The type of a check of an Agent, and the collection of violations. Pure."""

from collections.abc import Callable, Iterator

from fleetwright_operator.observe import ObservedAgent
from fleetwright_operator.settings import Settings
from fleetwright_operator.violation import Violation

Check = Callable[[ObservedAgent, Settings], Iterator[Violation]]


def violations(checks: tuple[Check, ...], seen: ObservedAgent, settings: Settings) -> list[Violation]:
    return [violation for check in checks for violation in check(seen, settings)]
