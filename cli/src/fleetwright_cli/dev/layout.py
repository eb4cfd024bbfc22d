"""The files and ports of a fleet on one machine: a folder and two ports per agent, a port per server. Pure.

The documents come from the operator's own `render_agent`; this module does not decide their content.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity, allowed_peers, callers_of
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.skill_document import InvalidSkill, SkillContent, files_of, read_skill
from fleetwright_api.skill_selection import skill_names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.fleet import NO_REACH
from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_api.spec.skill import SkillSourceSpec, SkillView
from fleetwright_cli.dev.gateway.local_tokens import agent_uid, token_text
from fleetwright_cli.dev.hosts import remove_proxies, without_declared_hosts_of
from fleetwright_cli.dev.manifests import InvalidFleet, LocalFleet
from fleetwright_cli.dev.provider import KEY_NAME, KEY_SECRET, SubstituteProvider, with_provider
from fleetwright_cli.dev.requirements import require_no_secrets, require_obeyable, require_references
from fleetwright_operator.build.auth_files import Tokens, client_names
from fleetwright_operator.build.card import served_card, unsigned
from fleetwright_operator.build.config.gateway import TOKEN_FOLDER, calls_gateway, gateway_trust
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.build.documents import AgentDocuments, render_agent
from fleetwright_operator.build.gateway_card import gateway_cards
from fleetwright_operator.build.pod.file_mounts import CONFIG_MAP
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.credentials.keyring import Ring
from fleetwright_operator.credentials.rotating_token import RotatingToken, Token
from fleetwright_operator.settings import GatewayReference, PodSelector, Settings

HOST = "127.0.0.1"
_CONFIGURATION = "etc/fleetwright"
_GATEWAY_TOKEN = f"{TOKEN_FOLDER.lstrip('/')}/token"


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports by name. A port is chosen once and kept while the fleet runs."""

    agents: Mapping[str, int]
    ops: Mapping[str, int]
    servers: Mapping[str, int]
    workspaces: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The files of one agent, by path. Agents with equal `revision` have equal configuration and card."""

    name: str
    revision: str
    files: Mapping[str, str] = field(repr=False)

    gateway_cards: Mapping[str, str] = field(default_factory=dict)
    """The cards that the gateway serves, by key; none if the run has no gateway."""

    @property
    def card(self) -> str:
        return self.files[f"{_CONFIGURATION}/card/agent-card.json"]

    @property
    def gateway_token(self) -> str:
        """The token with which the agent calls the gateway; empty if it does not."""
        return self.files.get(_GATEWAY_TOKEN, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFiles:
    """The settings of the run's gateway that the files of agents contain."""

    url: str
    keys: Ring


def uses_gateway(fleet: LocalFleet) -> bool:
    """Return whether an agent calls others of its team, or sleeps until a message comes."""
    specs = [agent.spec for agent in fleet.agents.values()]
    return any(spec.fleet.reach != NO_REACH or spec.sleep is not None for spec in specs)


def token_names(fleet: LocalFleet) -> list[str]:
    """Return a name for every secret that the fleet needs.

    The names are `client.<agent>.<client>` and `edge.<caller>.<callee>` for callers, `push.<agent>` for the key
    with which an agent encrypts webhook credentials, `gateway.<agent>` and `person` for the gateway, and
    `workspace.<agent>` with which an agent uses its workspace.
    """
    clients = [f"client.{name}.{client}" for name, agent in fleet.agents.items() for client in client_names(agent.spec)]
    edges = [f"edge.{name}.{peer}" for name in fleet.agents for _, peer in _allowed_peers(name, fleet)]
    keys = [f"push.{name}" for name, agent in fleet.agents.items() if offers_push(agent.spec)]
    team = ["person", *(f"gateway.{name}" for name in fleet.agents)] if uses_gateway(fleet) else []
    workspaces = [f"workspace.{name}" for name, agent in fleet.agents.items() if agent.spec.workspace is not None]
    return sorted(clients + edges + keys + team + workspaces)


def read_skills(fleet: LocalFleet) -> dict[str, SkillContent]:
    """Return the content of every Skill.

    Raises:
        InvalidFleet: A skill breaks a rule, or names a ConfigMap that is not in the folder.
    """
    return {name: _skill(name, skill, fleet) for name, skill in fleet.skills.items()}


def _skill(name: str, skill: SkillView, fleet: LocalFleet) -> SkillContent:
    try:
        files = _source_files(name, skill.spec.source, fleet)
        return read_skill(name, files, permissions=skill.spec.permissions)
    except InvalidSkill as error:
        raise InvalidFleet(f"Skill {name}: {error}") from None


def _source_files(name: str, source: SkillSourceSpec, fleet: LocalFleet) -> Mapping[str, str]:
    if source.inline is not None:
        return source.inline.files
    if source.config_map is None:
        raise InvalidFleet(f"Skill {name}: spec.source: git and image are fetched on a cluster only; use inline here")
    wanted = source.config_map.name
    if wanted not in fleet.config_maps:
        raise InvalidFleet(f"Skill {name}: spec.source.configMap: no ConfigMap {wanted!r} in this folder")
    return files_of(fleet.config_maps[wanted])


def agent_files(
    fleet: LocalFleet,
    *,
    namespace: str,
    ports: Ports,
    provider: SubstituteProvider,
    tokens: Mapping[str, str],
    catalog: Catalog,
    contacts: bool = False,
    gateway: GatewayFiles | None = None,
) -> list[AgentFiles]:
    """Return the files of every agent that is not suspended.

    Args: `contacts` is True if agents may connect to the hosts that they declare. `gateway` is None if the run has no
    gateway.

    Raises:
        InvalidFleet: A reference does not exist.
    """
    skills, local = read_skills(fleet), workloads(fleet)
    endpoints = Endpoints(
        agents={f"{namespace}/{name}": f"http://{HOST}:{port}" for name, port in ports.agents.items()},
        servers={f"{namespace}/{name}": server_url(workload, ports.servers[name]) for name, workload in local.items()},
        workspaces={f"{namespace}/{name}": f"http://{HOST}:{port}" for name, port in ports.workspaces.items()},
    )
    reached = None if gateway is None else GatewayReference(url=gateway.url, pods=PodSelector(namespace=namespace))
    settings = Settings(catalog=catalog, gateway=reached)
    for name in fleet.agents:
        require_references(name, fleet.agents[name].spec, fleet)
        require_no_secrets(name, fleet.agents[name].spec, fleet)
    if not contacts:
        fleet = without_declared_hosts_of(fleet)
    fleet = remove_proxies(fleet)
    running = [name for name in sorted(fleet.agents) if not fleet.agents[name].spec.suspend]
    keys = () if gateway is None else gateway.keys
    return [_agent(name, fleet, skills, endpoints, settings, provider, tokens, keys) for name in running]


def server_url(workload: WorkloadSpec, port: int) -> str:
    """Return the address of an McpServer's workload on this machine."""
    return f"http://{HOST}:{port}{workload.path}"


def workloads(fleet: LocalFleet) -> dict[str, WorkloadSpec]:
    """Return the workloads of the McpServers that run on this machine, by name."""
    return {name: server.spec.workload for name, server in fleet.servers.items() if server.spec.workload is not None}


def _agent(
    name: str,
    fleet: LocalFleet,
    skills: Mapping[str, SkillContent],
    endpoints: Endpoints,
    settings: Settings,
    provider: SubstituteProvider,
    tokens: Mapping[str, str],
    gateway_keys: Ring,
) -> AgentFiles:
    agent = fleet.agents[name]
    held = replace(
        _edges(name, fleet, tokens),
        gateway=gateway_trust(agent_uid(agent.namespace, name), gateway_keys, settings),
    )
    rendered = render_agent(
        replace(agent, spec=with_provider(agent.spec, provider)),
        skills={skill: skills[skill] for skill in skill_names(agent.spec, fleet.skill_labels)},
        servers=fleet.servers,
        peers=fleet.agents,
        endpoints=endpoints,
        settings=settings,
        tokens=held,
    )
    require_obeyable(name, rendered.config)
    files = _mounted(agent.spec, rendered) | _instructions(name, agent.spec, fleet)
    if held.gateway is not None:
        files["auth/gateway.json"] = held.gateway.file
    if offers_push(agent.spec):
        files[rendered.config["push"]["keyFile"]] = tokens[f"push.{name}"]
    if agent.spec.workspace is not None:
        files[f"auth/{names.WORKSPACE_KEY}"] = tokens[f"workspace.{name}"]
    if provider.key is not None:
        files[f"secrets/{KEY_SECRET}/{KEY_NAME}"] = provider.key
    found = {f"{_CONFIGURATION}/{path}": text for path, text in files.items()}
    if calls_gateway(agent.spec, fleet.agents, settings):
        found[_GATEWAY_TOKEN] = token_text(f"agent:{name}", tokens[f"gateway.{name}"])
    return AgentFiles(name, rendered.revision, found, gateway_cards(rendered.card, agent, settings.gateway, unsigned))


def _edges(name: str, fleet: LocalFleet, tokens: Mapping[str, str]) -> Tokens:
    """Return the tokens of the agent's clients, callers and peers."""
    agent = fleet.agents[name]
    namespace = agent.namespace

    def bearer(edge: str) -> RotatingToken:
        return RotatingToken(Token(tokens[edge]))

    return Tokens(
        clients={client: bearer(f"client.{name}.{client}") for client in client_names(agent.spec)},
        callers={
            f"{namespace}/{caller}": bearer(f"edge.{caller}.{name}")
            for _, caller in callers_of(agent, fleet.agents.values(), {})
        },
        peers={f"{namespace}/{peer}": bearer(f"edge.{name}.{peer}") for _, peer in _allowed_peers(name, fleet)},
    )


def _mounted(spec: AgentSpec, rendered: AgentDocuments) -> dict[str, str]:
    """Return the files that a pod would mount: configuration, credentials, cards and skills."""
    card = served_card(rendered.card, unsigned)
    files = {
        "agent.json": _json(rendered.config),
        "card/agent-card.json": card.text,
        "auth/callers.json": _json(rendered.callers),
        "auth/administrators.json": _json(rendered.administrators),
    }
    if card.extended:
        files["card/extended-agent-card.json"] = card.extended
    if spec.logging.level:
        files["card/log-level"] = spec.logging.level
    files |= {f"auth/{key}": token for key, token in rendered.peer_tokens.items()}
    for skill, content in rendered.skill_files.items():
        files |= {f"skills/{skill}/{path}": text for path, text in content.items()}
    return files


def _instructions(name: str, spec: AgentSpec, fleet: LocalFleet) -> dict[str, str]:
    mounted = instructions_file(spec)
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


def _allowed_peers(name: str, fleet: LocalFleet) -> tuple[Identity, ...]:
    agents = {(agent.namespace, name): agent for name, agent in fleet.agents.items()}
    return allowed_peers(fleet.agents[name], agents, {})


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
