"""The agent card, A2A 1.0: compiled from the same inputs as `agent.json`, so it says what is true.

Skills are the mounted ones; the security scheme is the enforced one; the extension is the emitted one.
"""

from collections.abc import Sequence
from typing import Any

from fleetwright_operator.edges import Agent
from fleetwright_operator.skill_document import SkillContent

PROTOCOL_VERSION = "1.0"
COST_EXTENSION = "https://proto-labs.ai/a2a/ext/cost-v1"
DEFAULT_VERSION = "0.1.0"


def agent_card(agent: Agent, *, url: str, skills: Sequence[SkillContent]) -> dict[str, Any]:
    name = agent["metadata"]["name"]
    spec = agent["spec"]
    description = spec.get("description") or f"The agent {name}."
    return {
        "name": name,
        "description": description,
        "version": spec.get("version", DEFAULT_VERSION),
        **({"provider": dict(spec["provider"])} if "provider" in spec else {}),
        **({"documentationUrl": spec["documentationURL"]} if "documentationURL" in spec else {}),
        **({"iconUrl": spec["iconURL"]} if "iconURL" in spec else {}),
        "supportedInterfaces": [
            {"url": f"{url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSION}
        ],
        "capabilities": {
            "streaming": True,
            "pushNotifications": False,
            "extensions": [
                {
                    "uri": COST_EXTENSION,
                    "description": "Tokens and US dollars of a task, in the metadata of its last artifact.",
                }
            ],
        },
        "securitySchemes": {
            "bearer": {
                "httpAuthSecurityScheme": {
                    "scheme": "Bearer",
                    "description": "The token of a named client or of an agent that may call this one.",
                }
            }
        },
        "securityRequirements": [{"schemes": {"bearer": {}}}],
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/markdown", "text/plain"],
        "skills": [_skill(skill) for skill in skills] or [_chat(description)],
    }


def _skill(skill: SkillContent) -> dict[str, Any]:
    return {"id": skill.name, "name": skill.name, "description": skill.description, "tags": ["skill"]}


def _chat(description: str) -> dict[str, Any]:
    return {"id": "chat", "name": "Chat", "description": description, "tags": ["chat"]}
