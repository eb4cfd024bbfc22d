"""All children of one Agent, in the order in which they are written: what a pod mounts comes before the pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.canonical import canonical_json
from fleetwright_operator.desired.callers import Tokens
from fleetwright_operator.desired.deployment import Snapshot, agent_deployment
from fleetwright_operator.desired.egress import Route, Services, egress_routes
from fleetwright_operator.desired.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.desired.network import agent_policy
from fleetwright_operator.desired.secrets import auth_secret, client_secret
from fleetwright_operator.desired.volume import memory_claim
from fleetwright_operator.edges import Agent
from fleetwright_operator.endpoints import Endpoints
from fleetwright_operator.render import Rendered, render_agent
from fleetwright_operator.settings import Settings
from fleetwright_operator.skill_document import SkillContent


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """An Agent and everything it refers to, found and checked. Mappings are by name within the namespace."""

    agent: Agent
    skills: Mapping[str, SkillContent] = field(default_factory=dict)
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    peers: Mapping[str, Agent] = field(default_factory=dict)
    callers: Sequence[str] = ()
    services: Services = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChildren:
    manifests: list[Manifest]
    rendered: Rendered
    routes: list[Route]


def agent_children(parts: AgentParts, settings: Settings) -> AgentChildren:
    owner = owner_of(parts.agent)
    rendered = render_agent(
        parts.agent,
        skills=parts.skills,
        servers=parts.servers,
        peers=parts.peers,
        endpoints=Endpoints(cluster_domain=settings.cluster_domain),
        settings=settings,
        tokens=parts.tokens,
    )
    routes = egress_routes(parts.agent, servers=parts.servers, services=parts.services, settings=settings)
    claim = memory_claim(owner, parts.agent)
    manifests = [
        *([] if "serviceAccountName" in parts.agent["spec"] else [_service_account(owner)]),
        _config_map(owner, rendered),
        *agent_credentials(parts.agent, parts.tokens),
        *([claim] if claim else []),
        # Before the Deployment: no pod of ours ever runs without its policy.
        agent_policy(owner, callers=parts.callers, routes=routes, settings=settings),
        _service(owner),
        agent_deployment(owner, parts.agent, revision=rendered.revision, snapshots=parts.snapshots, settings=settings),
    ]
    return AgentChildren(manifests=manifests, rendered=rendered, routes=routes)


def agent_credentials(agent: Agent, tokens: Tokens) -> list[Manifest]:
    """Also written while references dangle: a caller that lost its right must lose it at once."""
    owner = owner_of(agent)
    clients = [client_secret(owner, client=name, token=token) for name, token in sorted(tokens.clients.items())]
    return [*clients, auth_secret(owner, tokens)]


def _service_account(owner: Owner) -> Manifest:
    head = manifest("v1", "ServiceAccount", name=owner.name, owner=owner)
    return {**head, "automountServiceAccountToken": False}


def _config_map(owner: Owner, rendered: Rendered) -> Manifest:
    head = manifest(
        "v1",
        "ConfigMap",
        name=names.agent_config(owner.name, rendered.revision),
        owner=owner,
        annotations={names.REVISION_ANNOTATION: rendered.revision},
    )
    data = {names.CONFIG_KEY: canonical_json(rendered.config), names.CARD_KEY: canonical_json(rendered.card)}
    return {**head, "immutable": True, "data": data}


def _service(owner: Owner) -> Manifest:
    port = {"name": "a2a", "port": names.SERVICE_PORT, "targetPort": "a2a", "protocol": "TCP", "appProtocol": "http"}
    return {
        **manifest("v1", "Service", name=owner.name, owner=owner),
        "spec": {"type": "ClusterIP", "selector": owner.selector, "ports": [port]},
    }
