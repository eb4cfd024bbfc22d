"""The published schema of agent.json, which `make generated` writes from the runtime's own model."""

import json
from pathlib import Path

from fleetwright_agent.config.agent import AgentConfig

PUBLISHED = Path(__file__).parents[2] / "agent_image/agent-config.schema.json"


def test_published_schema_equals_the_model():
    assert json.loads(PUBLISHED.read_text()) == AgentConfig.model_json_schema(by_alias=True)
