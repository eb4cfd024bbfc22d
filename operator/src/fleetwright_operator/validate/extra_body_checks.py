"""Checks that `extraBody` of a model does not override fields that the runtime sends itself.

This module does not check whether a provider supports a field; the provider reports that.
"""

from collections.abc import Iterator
from typing import Final

from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.models import OPENAI, declared_models, provider_of
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings

_FIELDS: Final = {
    "temperature": "temperature",
    "reasoning_effort": "reasoningEffort",
    "max_tokens": "maxOutputTokens",
    "max_completion_tokens": "maxOutputTokens",
    "prompt_cache_key": "promptCache",
    "model": "name",
}
"""Request fields that the spec configures with a separate field, by the provider's name for the request field."""
_OURS: Final = frozenset(
    {"messages", "stream", "stream_options", "n", "tools", "tool_choice", "functions", "function_call"}
)
"""The runtime controls these fields; a spec may not override them."""


def requests_are_the_runtimes(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for field, model in declared_models(observed.agent.spec):
        extra = model.extra_body or {}
        if extra and provider_of(model) != OPENAI:
            message = f"{field}.extraBody needs provider {OPENAI}; remove it, or change provider"
            yield Violation("ExtraBody", message)
        for name in sorted(extra):
            if name in _FIELDS:
                message = f"{field}.extraBody has {name!r}; set {field}.{_FIELDS[name]} instead"
                yield Violation("ExtraBody", message)
            elif name in _OURS:
                yield Violation("ExtraBody", f"{field}.extraBody has {name!r}, which the agent sets itself; remove it")
