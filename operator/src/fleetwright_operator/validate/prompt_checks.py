"""Checks of the prompts that an agent sends to itself. Pure."""

from collections.abc import Iterator
from typing import Final

from fleetwright_api import durations
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.violation import Violation
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings

_SHORTEST: Final = "1m"
_LONGEST: Final = "24h"


def own_prompts_can_begin(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    idle = spec.idle_prompt
    texts = {"spec.initialPrompt": spec.initial_prompt, "spec.idlePrompt.text": idle.text if idle else None}
    for field, text in texts.items():
        if text is not None and not text.strip():
            yield Violation("PromptEmpty", f"{field} is empty; say what the agent should do, or remove the field")
    if idle is not None:
        yield from _interval_problems(spec, idle.every)


def _interval_problems(spec: AgentSpec, every: str) -> Iterator[Violation]:
    try:
        seconds = durations.seconds(every)
    except ValueError as error:
        yield Violation("InvalidDuration", f"spec.idlePrompt.every: {error}")
        return
    if not durations.seconds(_SHORTEST) <= seconds <= durations.seconds(_LONGEST):
        message = f"spec.idlePrompt.every is {every}; use a time from {_SHORTEST} to {_LONGEST}, such as 10m"
        yield Violation("InvalidDuration", message)
    if spec.sleep is not None and seconds >= _sleeps_after(spec.sleep.after_idle):
        message = (
            f"spec.idlePrompt.every is {every} and must be shorter than spec.sleep.afterIdle, which is"
            f" {spec.sleep.after_idle}: the agent would always sleep before its prompt is due. Lower"
            " spec.idlePrompt.every, raise spec.sleep.afterIdle, or remove one of the two fields"
        )
        yield Violation("IdlePromptInterval", message)


def _sleeps_after(after_idle: str) -> int:
    try:
        return durations.seconds(after_idle)
    except ValueError:
        return durations.seconds(_LONGEST) + 1  # A rule of the CRD refuses this value.
