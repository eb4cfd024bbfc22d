"""What a fleet becomes on one machine: a folder and two ports per agent, a port per server. Pure.

The documents come from the operator's own `render_agent`; nothing here decides what an agent is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from fleetwright_agent.config import AgentConfig
from fleetwright_cli.dev.manifests import Fleet, InvalidFleet, Manifest
from fleetwright_cli.dev.provider import KEY_NAME, KEY_SECRET, Provider, with_provider
from fleetwright_operator.catalog import Catalog
from fleetwright_operator.desired.callers import Tokens, client_names
from fleetwright_operator.desired.deployment import is_suspended
from fleetwright_operator.edges import allowed_peers, callers_of
from fleetwright_operator.endpoints import Endpoints
from fleetwright_operator.render import render_agent
from fleetwright_operator.settings import Settings
from fleetwright_operator.skill_document import InvalidSkill, SkillContent, read_skill

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """By name; a port is chosen once and kept while the fleet runs."""

    agents: Mapping[str, int]
    ops: Mapping[str, int]
    servers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """One agent's folder: path to content. Whoever holds the same `revision` runs the same agent."""

    name: str
    revision: str
    files: Mapping[str, str] = field(repr=False)


def token_names(fleet: Fleet) -> list[str]:
    """A name for every credential the fleet needs: `client.<agent>.<client>` and `edge.<caller>.<callee>`."""
    clients = [f"client.{name}.{client}" for name, agent in fleet.agents.items() for client in client_names(agent)]
    edges = [f"edge.{name}.{peer}" for name in fleet.agents for peer in allowed_peers(fleet.agents[name], fleet.agents)]
    return sorted(clients + edges)


def read_skills(fleet: Fleet) -> dict[str, SkillContent]:
    """The content of every Skill.

    Raises:
        InvalidFleet: A skill breaks a rule, or names a ConfigMap that is not in the folder.
    """
    return {name: _skill(name, skill, fleet) for name, skill in fleet.skills.items()}


def _skill(name: str, skill: Manifest, fleet: Fleet) -> SkillContent:
    source = skill["spec"]["source"]
    if "inline" in source:
        files = source["inline"]["files"]
    else:
        wanted = source["configMap"]["name"]
        if wanted not in fleet.config_maps:
            raise InvalidFleet(f"Skill {name}: spec.source.configMap: no ConfigMap {wanted!r} in this folder")
        files = fleet.config_maps[wanted]
    try:
        return read_skill(name, files)
    except InvalidSkill as error:
        raise InvalidFleet(f"Skill {name}: {error}") from None


def agent_files(
    fleet: Fleet,
    *,
    namespace: str,
    ports: Ports,
    provider: Provider,
    tokens: Mapping[str, str],
    catalog: Catalog,
) -> list[AgentFiles]:
    """The folder of every agent that is not suspended.

    Raises:
        InvalidFleet: A reference leads nowhere.
    """
    skills = read_skills(fleet)
    endpoints = Endpoints(
        agents={f"{namespace}/{name}": f"http://{_HOST}:{port}" for name, port in ports.agents.items()},
        servers={f"{namespace}/{name}": server_url(fleet.servers[name], port) for name, port in ports.servers.items()},
    )
    settings = Settings(catalog=catalog)
    running = [name for name in sorted(fleet.agents) if not is_suspended(fleet.agents[name])]
    return [_agent(name, fleet, skills, endpoints, settings, provider, tokens) for name in running]


def server_url(server: Manifest, port: int) -> str:
    """Where the workload of an McpServer is reached on this machine."""
    return f"http://{_HOST}:{port}{server['spec']['workload'].get('path', '/mcp')}"


def _agent(
    name: str,
    fleet: Fleet,
    skills: Mapping[str, SkillContent],
    endpoints: Endpoints,
    settings: Settings,
    provider: Provider,
    tokens: Mapping[str, str],
) -> AgentFiles:
    agent = fleet.agents[name]
    _require_references(name, agent, fleet)
    namespace = agent["metadata"]["namespace"]
    edges = Tokens(
        clients={client: tokens[f"client.{name}.{client}"] for client in client_names(agent)},
        callers={f"{namespace}/{c}": tokens[f"edge.{c}.{name}"] for c in callers_of(agent, fleet.agents.values())},
        peers={f"{namespace}/{p}": tokens[f"edge.{name}.{p}"] for p in allowed_peers(agent, fleet.agents)},
    )
    rendered = render_agent(
        with_provider(agent, provider),
        skills=skills,
        servers=fleet.servers,
        peers=fleet.agents,
        endpoints=endpoints,
        settings=settings,
        tokens=edges,
    )
    _require_obeyable(name, rendered.config)
    files = {
        "agent.json": _json(rendered.config),
        "card/agent-card.json": _json(rendered.card),
        "auth/callers.json": _json(rendered.callers),
    }
    files |= {f"auth/{key}": token for key, token in rendered.peer_tokens.items()}
    for skill, content in rendered.skill_files.items():
        files |= {f"skills/{skill}/{path}": text for path, text in content.items()}
    if provider.key is not None:
        files[f"secrets/{KEY_SECRET}/{KEY_NAME}"] = provider.key
    return AgentFiles(name, rendered.revision, {f"etc/fleetwright/{path}": text for path, text in files.items()})


def _require_obeyable(name: str, config: Mapping[str, Any]) -> None:
    """On a cluster the CRD's rules refuse such values; here the runtime's own model does, before anything starts."""
    try:
        AgentConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidFleet(f"Agent {name}: {where}: {first['msg']}") from None


def _require_references(name: str, agent: Manifest, fleet: Fleet) -> None:
    spec = agent["spec"]
    for key, known in (("skills", fleet.skills), ("mcpServers", fleet.servers), ("peers", fleet.agents)):
        for reference in spec.get(key, ()):
            if reference["name"] not in known:
                raise InvalidFleet(f"Agent {name}: spec.{key}: {reference['name']!r} is not in this folder")


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
