"""The `subAgents` section of agent.json: the agents that get parts of the work, and the tools that each may use."""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api import durations
from fleetwright_api.model_catalog import Catalog
from fleetwright_operator.build.config.models import other_model, output_of

DELEGATING: Final = ("task", "task_batch")
"""The tools that delegate to sub-agents, as the runtime names them."""
_SAME: Final = ("name", "description", "instructions", "tools", "maxModelCalls")


def sub_agents_config(spec: Mapping[str, Any], catalog: Catalog) -> list[dict[str, Any]]:
    """Return the section. The runtime has the defaults."""
    output = output_of(spec["model"], catalog)
    return [_sub_agent(each, catalog, output=output) for each in spec.get("subAgents", ())]


def _sub_agent(declared: Mapping[str, Any], catalog: Catalog, *, output: int) -> dict[str, Any]:
    return {
        **{field: declared[field] for field in _SAME if field in declared},
        **({"model": other_model(declared["model"], catalog, output=output)} if "model" in declared else {}),
        **({"timeoutSeconds": durations.seconds(declared["timeout"])} if "timeout" in declared else {}),
    }
