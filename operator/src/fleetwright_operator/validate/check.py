"""The type of a check of an Agent, and the collection of violations. Pure."""

from collections.abc import Callable, Iterator

from fleetwright_api.violation import Violation
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings

Check = Callable[[ObservedAgent, Settings], Iterator[Violation]]


def violations(checks: tuple[Check, ...], observed: ObservedAgent, settings: Settings) -> list[Violation]:
    return [violation for check in checks for violation in check(observed, settings)]
