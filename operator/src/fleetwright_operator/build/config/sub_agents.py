"""The `subAgents` section of agent.json: the sub-agents, and the tools that each of them may use."""

from dataclasses import replace
from typing import Any, Final

from fleetwright_api import durations
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.tools import SubAgentSpec
from fleetwright_operator.build.config.models import other_model, output_of

DELEGATING: Final = ("task", "task_batch")
"""The tools that delegate to sub-agents, as the runtime names them."""


def sub_agents_config(spec: AgentSpec, catalog: Catalog) -> list[dict[str, Any]]:
    """Return the section. The runtime applies the defaults."""
    output = output_of(spec.model, catalog)
    return [_sub_agent(each, catalog, output=output) for each in spec.sub_agents]


def _sub_agent(declared: SubAgentSpec, catalog: Catalog, *, output: int) -> dict[str, Any]:
    return {
        **encode(replace(declared, model=None, timeout=None)),
        **({"model": other_model(declared.model, catalog, output=output)} if declared.model is not None else {}),
        **({"timeoutSeconds": durations.seconds(declared.timeout)} if declared.timeout is not None else {}),
    }
