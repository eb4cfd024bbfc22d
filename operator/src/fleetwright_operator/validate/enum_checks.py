"""Checks of enumerated fields that only the operator reads. An unknown value is reported, never guessed.

This module does not check fields that the runtime also reads; the runtime reports those itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.auth_settings import DIALECTS
from fleetwright_operator.observe.observation import ObservedAgent
from fleetwright_operator.settings import Settings

_OF_AGENTS: Final = {
    "spec.network.policy": ("Managed", "None"),
    "spec.a2a.publicCard": ("Full", "Minimal"),
    "spec.logging.level": ("debug", "info", "warning", "error"),
    "spec.allowedCallers.namespaces.from": ("Same", "All", "Selector"),
}
_OF_SERVERS: Final = {
    "spec.remote.transport": ("StreamableHTTP", "SSE"),
    "spec.workload.transport": ("StreamableHTTP", "Stdio"),
}


def words_are_known(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    yield from _unknown(observed.agent, _OF_AGENTS)
    for word in observed.agent["spec"].get("a2a", {}).get("dialects", ()):
        yield from _judged("spec.a2a.dialects", word, DIALECTS)


def transport_is_known(server: Mapping[str, Any]) -> Iterator[Violation]:
    yield from _unknown(server, _OF_SERVERS)


def _unknown(body: Mapping[str, Any], fields: Mapping[str, Sequence[str]]) -> Iterator[Violation]:
    for field, words in fields.items():
        *way, last = field.split(".")
        place = reduce(lambda place, step: place.get(step, {}), way, body)
        if last in place:
            yield from _judged(field, place[last], words)


def _judged(field: str, word: object, words: Sequence[str]) -> Iterator[Violation]:
    if word not in words:
        yield Violation("UnknownWord", f"{field} has {word!r}; use one of {', '.join(words)}")
