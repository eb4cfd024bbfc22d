"""Renders the documents of one agent, for the operator and for `fleetwright dev`. Pure; needs no cluster.

The caller passes parsed manifests. `read_skill` turns a Skill's files into `SkillContent`, `call_authorization` decides
who may call whom, and `mint_token` (in `tokens`) creates missing tokens. A caller that runs agents outside a cluster
passes their addresses in `Endpoints`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.skill_document import SkillContent
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_operator.build.agent_config import agent_config
from fleetwright_operator.build.auth_files import Tokens, administrators_document, callers_document, peer_token_files
from fleetwright_operator.build.card import agent_card
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDocuments:
    """The files that the runtime reads, as documents. Only `callers` and `peer_tokens` are secret."""

    revision: str
    config: dict[str, Any]
    """`/etc/fleetwright/agent.json`"""
    card: dict[str, Any]
    """`/etc/fleetwright/card/agent-card.json`, without signatures"""
    callers: dict[str, Any] = field(repr=False)
    """`/etc/fleetwright/auth/callers.json`"""
    administrators: dict[str, Any]
    """`/etc/fleetwright/auth/administrators.json`"""
    peer_tokens: dict[str, str] = field(repr=False)
    """`/etc/fleetwright/auth/<key>`"""
    skill_files: dict[str, Mapping[str, str]] = field(repr=False)
    """`/etc/fleetwright/skills/<skill>/<path>`; empty if the skill's files were not read."""


def render_agent(
    agent: AgentView,
    *,
    skills: Mapping[str, SkillContent],
    servers: Mapping[str, McpServerView],
    peers: Mapping[str, AgentView],
    endpoints: Endpoints,
    settings: Settings,
    tokens: Tokens,
) -> AgentDocuments:
    """Return the documents of one agent. All its references must exist; the checks report missing ones.

    Args:
        agent: The Agent, with a valid spec.
        skills: Exactly the skills that the agent has, by name and in their order.
        servers: McpServer objects by name, with every one that the agent names.
        peers: Agent objects by name, with every peer that the agent names.
        endpoints: The addresses of agents, servers and models.
        settings: The catalog and the drain time.
        tokens: The credentials of this agent's callers and peers.
    """
    mounted = list(skills.values())
    config = agent_config(
        agent,
        skills=mounted,
        servers=servers,
        peers=peers,
        endpoints=endpoints,
        settings=settings,
    )
    card = agent_card(agent, url=config["url"], skills=mounted)
    revision = short_hash({"config": config, "card": card})
    return AgentDocuments(
        revision=revision,
        config={**config, "revision": revision},
        card=card,
        callers=callers_document(tokens),
        administrators=administrators_document(agent.spec.auth.administrators),
        peer_tokens=peer_token_files(tokens),
        skill_files={skill.name: skill.files for skill in mounted},
    )
