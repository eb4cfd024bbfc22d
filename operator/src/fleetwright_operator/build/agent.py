"""All children of one Agent, in the order in which they are written.

The objects that a pod mounts come before the pod.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.skill_document import SkillContent
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.auth_files import Tokens
from fleetwright_operator.build.card import ServedCard, Sign, card_config_map, served_card, unsigned
from fleetwright_operator.build.cilium_policy import names_policies, plain_rules
from fleetwright_operator.build.deployment import Skills, agent_deployment
from fleetwright_operator.build.documents import AgentDocuments, render_agent
from fleetwright_operator.build.gateway_card import gateway_cards
from fleetwright_operator.build.gateway_clients import gateway_clients
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.egress import EgressRule, Services, derived_egress_rules
from fleetwright_operator.build.network.ingress import IngressPeer, derived_ingress_peers
from fleetwright_operator.build.network.network_additions import (
    added_egress_rules,
    added_ingress_peers,
    ingress_problems,
    is_managed,
)
from fleetwright_operator.build.network_policy import egress_policy, ingress_policy
from fleetwright_operator.build.pod.memory_volume import memory_request
from fleetwright_operator.build.secrets import auth_secret, client_secret, push_secret
from fleetwright_operator.build.volume_claim import claim_manifest, compare_claim
from fleetwright_operator.build.workspace.children import runner_rule
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """An Agent and the checked objects that it refers to.

    Mappings are by name, because the names of its peers are unique.
    """

    agent: AgentView
    skills: Mapping[str, SkillContent] = field(default_factory=dict)
    snapshots: Skills = field(default_factory=dict)
    servers: Mapping[str, McpServerView] = field(default_factory=dict)
    peers: Mapping[str, AgentView] = field(default_factory=dict)
    callers: Sequence[Identity] = ()
    services: Services = field(default_factory=dict)
    tokens: Tokens = field(default_factory=Tokens)
    pending: Mapping[str, str] = field(default_factory=dict)
    environment: Sequence[str] = ()
    """The versions of the objects in the environment of a `podTemplate`."""
    memory_claim: CachedObject | None = None
    """The claim with the memory, if it exists."""
    sign: Sign = unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChildren:
    mounted: list[Manifest]
    """The objects that a pod mounts. They may be written while another revision serves."""
    serving: list[Manifest]
    """Card, egress policies, Service and, last, the Deployment. Writing them replaces the serving revision."""
    rendered: AgentDocuments
    card: ServedCard
    egress_rules: list[EgressRule]

    @property
    def manifests(self) -> list[Manifest]:
        return [*self.mounted, *self.serving]

    def without_pod(self) -> "AgentChildren":
        """Return the children of a sleeping agent: the same, but without a pod."""
        stopped = {**self.serving[-1], "spec": {**self.serving[-1]["spec"], "replicas": 0}}
        return replace(self, serving=[*self.serving[:-1], stopped])

    @property
    def template(self) -> Mapping[str, Any]:
        """The pod template of the Deployment."""
        template: Mapping[str, Any] = self.serving[-1]["spec"]["template"]
        return template

    @property
    def template_hash(self) -> str:
        return str(self.serving[-1]["metadata"]["annotations"][names.TEMPLATE_ANNOTATION])


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
    egress_rules = list(_egress_rules(parts, settings))
    card = served_card(rendered.card, parts.sign)
    at_gateway = gateway_cards(rendered.card, parts.agent, settings.gateway, parts.sign)
    wanted = memory_request(parts.agent)
    mounted = [
        *([_service_account(owner)] if parts.agent.spec.service_account_name is None else []),
        _config_map(owner, rendered),
        *agent_access(parts.agent, parts.tokens, pending=parts.pending, callers=parts.callers, settings=settings),
        *([claim_manifest(owner, compare_claim(wanted, parts.memory_claim))] if wanted else []),
    ]
    serving = [
        card_config_map(owner, parts.agent.spec, card, at_gateway),
        # The policies come before the Deployment, so that no pod runs without its policy.
        *_egress_policies(owner, parts.agent.spec, egress_rules, settings),
        _service(owner),
        agent_deployment(
            owner,
            parts.agent.spec,
            revision=rendered.revision,
            snapshots=parts.snapshots,
            servers=parts.servers,
            peers=parts.peers,
            environment=parts.environment,
            settings=settings,
        ),
    ]
    return AgentChildren(mounted=mounted, serving=serving, rendered=rendered, card=card, egress_rules=egress_rules)


def _egress_rules(parts: AgentParts, settings: Settings) -> Iterator[EgressRule]:
    if is_managed(parts.agent.spec):
        yield from derived_egress_rules(
            parts.agent,
            servers=parts.servers,
            needs={name: skill.needs for name, skill in parts.skills.items()},
            peers=parts.peers,
            services=parts.services,
            settings=settings,
        )
        yield from added_egress_rules(parts.agent.spec, settings)
        if parts.agent.spec.workspace is not None:
            yield runner_rule(parts.agent)


def _egress_policies(
    owner: Owner, spec: AgentSpec, egress_rules: list[EgressRule], settings: Settings
) -> Iterator[Manifest]:
    if is_managed(spec):
        # The Cilium policy comes first, because the plain policy no longer contains its routes.
        yield from names_policies(owner, egress_rules, settings)
        yield egress_policy(owner, plain_rules(egress_rules, settings))


def agent_access(
    agent: AgentView, tokens: Tokens, *, pending: Mapping[str, str], callers: Sequence[Identity], settings: Settings
) -> list[Manifest]:
    """Return the manifests that decide who may call the agent.

    The operator also writes them while other children are blocked, so that changes take effect at once.

    The list of accepted callers comes first, so that no caller gets a token that is not accepted yet. The NetworkPolicy
    comes last, because it contains rules from the spec that the API server may reject.
    """
    owner = owner_of(agent)
    clients = [
        client_secret(owner, client=name, credential=credential) for name, credential in sorted(tokens.clients.items())
    ]
    keys = [push_secret(owner, tokens.push)] if tokens.push else []
    sources = ingress_peers(agent, callers=callers, settings=settings)
    policies = [ingress_policy(owner, sources)] if sources else []
    published = gateway_clients(owner, tokens)
    listed = [published] if published else []
    auth = auth_secret(owner, tokens, pending=pending, administrators=agent.spec.auth.administrators)
    return [auth, *clients, *keys, *listed, *policies]


def ingress_peers(agent: AgentView, *, callers: Sequence[Identity], settings: Settings) -> list[IngressPeer]:
    """Return the ingress peers. An empty list means that no policy is to be written.

    The list is empty if the policy is unmanaged, or if a range in the spec is invalid and the existing policy must
    stay.
    """
    if not is_managed(agent.spec) or list(ingress_problems(agent.spec)):
        return []
    first, *rest = derived_ingress_peers(agent, callers=callers, settings=settings)
    return [first, *added_ingress_peers(agent.spec), *rest]


def _service_account(owner: Owner) -> Manifest:
    head = manifest("v1", "ServiceAccount", name=owner.name, owner=owner)
    return {**head, "automountServiceAccountToken": False}


def _config_map(owner: Owner, rendered: AgentDocuments) -> Manifest:
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
