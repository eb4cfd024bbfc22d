"""One agent's documents, as the operator and `fleetwright dev` both make them. Pure; needs no cluster.

A caller brings parsed manifests: `read_skill` turns a Skill's files into `SkillContent`, `call_authorization` says
who may call whom, `mint_token` (in `tokens`) makes missing tokens. A caller that runs agents outside a cluster
passes their addresses as `Endpoints`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator.api.call_authorization import Agent
from fleetwright_operator.api.endpoints import Endpoints
from fleetwright_operator.api.skill_document import SkillContent
from fleetwright_operator.build.agent_config import agent_config
from fleetwright_operator.build.callers import Tokens, callers_document, peer_token_files
from fleetwright_operator.build.card import agent_card
from fleetwright_operator.encoding.canonical_json import short_hash
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """What the runtime reads: file contents as documents; only `callers` and `peer_tokens` are secret."""

    revision: str
    config: dict[str, Any]
    """`/etc/fleetwright/agent.json`"""
    card: dict[str, Any]
    """`/etc/fleetwright/card/agent-card.json`, before anybody signed it"""
    callers: dict[str, Any] = field(repr=False)
    """`/etc/fleetwright/auth/callers.json`"""
    peer_tokens: dict[str, str] = field(repr=False)
    """`/etc/fleetwright/auth/<key>`"""
    skill_files: dict[str, Mapping[str, str]] = field(repr=False)
    """`/etc/fleetwright/skills/<skill>/<path>`; empty where the skill's files were not read."""


def render_agent(
    agent: Agent,
    *,
    skills: Mapping[str, SkillContent],
    servers: Mapping[str, Mapping[str, Any]],
    peers: Mapping[str, Agent],
    endpoints: Endpoints,
    settings: Settings,
    tokens: Tokens,
) -> Rendered:
    """The documents of one agent whose references all exist (`validate/` finds those that do not).

    Args:
        agent: The Agent object, with metadata.name, metadata.namespace and a valid spec.
        skills: By name: exactly those that the agent has, in their order.
        servers: McpServer objects by name; must hold every one that the agent names.
        peers: Agent objects by name; must hold every peer that the agent names.
        endpoints: Where agents, servers and models are reached.
        settings: The catalog and the drain time.
        tokens: Credentials of this agent's edges.
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
    return Rendered(
        revision=revision,
        config={**config, "revision": revision},
        card=card,
        callers=callers_document(tokens),
        peer_tokens=peer_token_files(tokens),
        skill_files={skill.name: skill.files for skill in mounted},
    )
