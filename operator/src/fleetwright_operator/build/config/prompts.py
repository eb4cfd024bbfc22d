"""The prompts that an agent sends to itself, in `agent.json`. Pure."""

from typing import Any

from fleetwright_api import durations
from fleetwright_api.spec.agent import AgentSpec


def prompts_config(spec: AgentSpec) -> dict[str, Any]:
    """Return only the fields that the spec sets."""
    idle = spec.idle_prompt
    return {
        **({"initialPrompt": spec.initial_prompt} if spec.initial_prompt is not None else {}),
        **({"idlePrompt": {"text": idle.text, "everySeconds": durations.seconds(idle.every)}} if idle else {}),
    }
