"""The files and ports of a fleet on one machine: a folder and two ports per agent, a port per server. Pure.

The documents come from the operator's own `render_agent`; this module does not decide their content.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_api.call_authorization import Identity, allowed_peers, callers_of
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.skill_document import InvalidSkill, SkillContent, files_of, read_skill
from fleetwright_api.skill_selection import skill_names
from fleetwright_cli.dev.hosts import without_declared_hosts
from fleetwright_cli.dev.manifests import Fleet, InvalidFleet, Manifest
from fleetwright_cli.dev.provider import KEY_NAME, KEY_SECRET, SubstituteProvider, with_provider
from fleetwright_operator.build.callers import Tokens, client_names
from fleetwright_operator.build.card import served_card, unsigned
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.build.deployment import is_suspended
from fleetwright_operator.build.documents import AgentDocuments, render_agent
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.build.pod.mounted_files import CONFIG_MAP
from fleetwright_operator.credentials.rotating_token import RotatingToken, Token
from fleetwright_operator.settings import Settings

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports by name. A port is chosen once and kept while the fleet runs."""

    agents: Mapping[str, int]
    ops: Mapping[str, int]
    servers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The files of one agent, by path. Agents with equal `revision` have equal configuration and card."""

    name: str
    revision: str
    files: Mapping[str, str] = field(repr=False)


def token_names(fleet: Fleet) -> list[str]:
    """Return a name for every secret that the fleet needs.

    The names are `client.<agent>.<client>` and `edge.<caller>.<callee>` for callers, and `push.<agent>` for the key
    with
    which an agent encrypts webhook credentials.
    """
    clients = [f"client.{name}.{client}" for name, agent in fleet.agents.items() for client in client_names(agent)]
    edges = [f"edge.{name}.{peer}" for name in fleet.agents for _, peer in _allowed_peers(name, fleet)]
    keys = [f"push.{name}" for name, agent in fleet.agents.items() if offers_push(agent)]
    return sorted(clients + edges + keys)


def read_skills(fleet: Fleet) -> dict[str, SkillContent]:
    """Return the content of every Skill.

    Raises:
        InvalidFleet: A skill breaks a rule, or names a ConfigMap that is not in the folder.
    """
    return {name: _skill(name, skill, fleet) for name, skill in fleet.skills.items()}


def _skill(name: str, skill: Manifest, fleet: Fleet) -> SkillContent:
    try:
        files = _source_files(name, skill["spec"]["source"], fleet)
        return read_skill(name, files, permissions=skill["spec"].get("permissions"))
    except InvalidSkill as error:
        raise InvalidFleet(f"Skill {name}: {error}") from None


def _source_files(name: str, source: Manifest, fleet: Fleet) -> Mapping[str, str]:
    if "inline" in source:
        inline: Mapping[str, str] = source["inline"]["files"]
        return inline
    if "configMap" not in source:
        raise InvalidFleet(f"Skill {name}: spec.source: git and image are fetched on a cluster only; use inline here")
    wanted = source["configMap"]["name"]
    if wanted not in fleet.config_maps:
        raise InvalidFleet(f"Skill {name}: spec.source.configMap: no ConfigMap {wanted!r} in this folder")
    return files_of(fleet.config_maps[wanted])


def agent_files(
    fleet: Fleet,
    *,
    namespace: str,
    ports: Ports,
    provider: SubstituteProvider,
    tokens: Mapping[str, str],
    catalog: Catalog,
    contacts: bool = False,
) -> list[AgentFiles]:
    """Return the files of every agent that is not suspended.

    Args: `contacts` is whether agents may connect to the hosts that they declare.

    Raises:
        InvalidFleet: A reference does not exist.
    """
    skills = read_skills(fleet)
    endpoints = Endpoints(
        agents={f"{namespace}/{name}": f"http://{_HOST}:{port}" for name, port in ports.agents.items()},
        servers={f"{namespace}/{name}": server_url(fleet.servers[name], port) for name, port in ports.servers.items()},
    )
    settings = Settings(catalog=catalog)
    for name in fleet.agents:
        _require_references(name, fleet.agents[name], fleet)
        _require_no_secrets(name, fleet.agents[name], fleet)
    if not contacts:
        agents = {name: without_declared_hosts(agent, fleet.servers) for name, agent in fleet.agents.items()}
        fleet = replace(fleet, agents=agents)
    running = [name for name in sorted(fleet.agents) if not is_suspended(fleet.agents[name])]
    return [_agent(name, fleet, skills, endpoints, settings, provider, tokens) for name in running]


def server_url(server: Manifest, port: int) -> str:
    """Return the address of an McpServer's workload on this machine."""
    return f"http://{_HOST}:{port}{server['spec']['workload'].get('path', '/mcp')}"


def _agent(
    name: str,
    fleet: Fleet,
    skills: Mapping[str, SkillContent],
    endpoints: Endpoints,
    settings: Settings,
    provider: SubstituteProvider,
    tokens: Mapping[str, str],
) -> AgentFiles:
    agent = fleet.agents[name]
    rendered = render_agent(
        with_provider(agent, provider),
        skills={skill: skills[skill] for skill in skill_names(agent, _labels(fleet))},
        servers=fleet.servers,
        peers=fleet.agents,
        endpoints=endpoints,
        settings=settings,
        tokens=_edges(name, fleet, tokens),
    )
    _require_obeyable(name, rendered.config)
    files = _mounted(agent, rendered) | _instructions(name, agent, fleet)
    if offers_push(agent):
        files[rendered.config["push"]["keyFile"]] = tokens[f"push.{name}"]
    if provider.key is not None:
        files[f"secrets/{KEY_SECRET}/{KEY_NAME}"] = provider.key
    return AgentFiles(name, rendered.revision, {f"etc/fleetwright/{path}": text for path, text in files.items()})


def _edges(name: str, fleet: Fleet, tokens: Mapping[str, str]) -> Tokens:
    """Return the tokens of the agent's clients, callers and peers."""
    agent = fleet.agents[name]
    namespace = agent["metadata"]["namespace"]

    def bearer(edge: str) -> RotatingToken:
        return RotatingToken(Token(tokens[edge]))

    return Tokens(
        clients={client: bearer(f"client.{name}.{client}") for client in client_names(agent)},
        callers={
            f"{namespace}/{caller}": bearer(f"edge.{caller}.{name}")
            for _, caller in callers_of(agent, fleet.agents.values(), {})
        },
        peers={f"{namespace}/{peer}": bearer(f"edge.{name}.{peer}") for _, peer in _allowed_peers(name, fleet)},
    )


def _mounted(agent: Mapping[str, Any], rendered: AgentDocuments) -> dict[str, str]:
    """Return the files that a pod would mount: configuration, credentials, cards and skills."""
    card = served_card(rendered.card, unsigned)
    files = {
        "agent.json": _json(rendered.config),
        "card/agent-card.json": card.text,
        "auth/callers.json": _json(rendered.callers),
    }
    if card.extended:
        files["card/extended-agent-card.json"] = card.extended
    if level := agent["spec"].get("logging", {}).get("level"):
        files["card/log-level"] = level
    files |= {f"auth/{key}": token for key, token in rendered.peer_tokens.items()}
    for skill, content in rendered.skill_files.items():
        files |= {f"skills/{skill}/{path}": text for path, text in content.items()}
    return files


def _instructions(name: str, agent: Manifest, fleet: Fleet) -> dict[str, str]:
    mounted = instructions_file(agent)
    if mounted is None:
        return {}
    if mounted.kind != CONFIG_MAP:
        raise InvalidFleet(
            f"Agent {name}: {mounted.field}: a local run reads no Secrets; use a ConfigMap of this folder"
        )
    text = (fleet.config_maps.get(mounted.name, {}).get("data") or {}).get(mounted.key)
    if text is None:
        raise InvalidFleet(f"Agent {name}: {mounted.field}: no ConfigMap {mounted.name!r} with {mounted.key!r} here")
    return {mounted.path: text}


def _allowed_peers(name: str, fleet: Fleet) -> tuple[Identity, ...]:
    agents = {(agent["metadata"]["namespace"], name): agent for name, agent in fleet.agents.items()}
    return allowed_peers(fleet.agents[name], agents, {})


def _labels(fleet: Fleet) -> dict[str, Mapping[str, str]]:
    return {name: skill["metadata"].get("labels", {}) for name, skill in fleet.skills.items()}


def _require_obeyable(name: str, config: Mapping[str, Any]) -> None:
    """Validate the configuration with the runtime's model. On a cluster, the CRD's rules reject such values earlier."""
    try:
        AgentConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidFleet(f"Agent {name}: {where}: {first['msg']}") from None


def _require_references(name: str, agent: Manifest, fleet: Fleet) -> None:
    spec = agent["spec"]
    if any("namespace" in peer for peer in spec.get("peers", ())):
        raise InvalidFleet(f"Agent {name}: spec.peers: a local run is one namespace; remove the peer's namespace")
    for key, known in (("skills", fleet.skills), ("mcpServers", fleet.servers), ("peers", fleet.agents)):
        for reference in spec.get(key, ()):
            if reference["name"] not in known:
                raise InvalidFleet(f"Agent {name}: spec.{key}: {reference['name']!r} is not in this folder")


def _require_no_secrets(name: str, agent: Manifest, fleet: Fleet) -> None:
    for use in agent["spec"].get("mcpServers", ()):
        remote = fleet.servers[use["name"]]["spec"].get("remote", {})
        for secret in ("headersFrom", "caSecretRef"):
            if secret in remote:
                place = f"Agent {name}: McpServer {use['name']}: spec.remote.{secret}"
                raise InvalidFleet(f"{place}: a local run has no Secrets; leave it out here")


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
