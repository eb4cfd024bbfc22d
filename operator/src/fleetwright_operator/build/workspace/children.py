"""All children of a workspace, in the order in which they are written. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.addresses import pods
from fleetwright_operator.build.network.egress import EgressRule, Services
from fleetwright_operator.build.network.network_additions import added_rules
from fleetwright_operator.build.network_policy import workspace_policy
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS, NamespaceLimits
from fleetwright_operator.build.secrets import workspace_secret
from fleetwright_operator.build.volume_claim import claim_manifest, compare_claim
from fleetwright_operator.build.workspace.deployment import workspace_deployment, workspace_selector
from fleetwright_operator.build.workspace.egress_hosts import FIELD, has_hosts, proxied_rules, unresolved_hosts
from fleetwright_operator.build.workspace.egress_proxy import proxy_children, proxy_environment, proxy_rule
from fleetwright_operator.build.workspace.volume import files_request
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceChildren:
    prepared: list[Manifest]
    """The objects that the pod needs: its volume, its Secret, its policy, its Service and its egress proxy."""
    deployment: Manifest
    egress_rules: list[EgressRule]
    """The destinations of commands, each with its reason."""
    awaits_proxy: bool
    """True until the Service of the egress proxy has an address. The Deployment is not written before."""
    unresolved_hosts: tuple[str, ...]
    """The reasons why hosts of `network.egress` cannot be reached. They are absent from the rules of the proxy."""

    @property
    def manifests(self) -> list[Manifest]:
        return [*self.prepared, self.deployment]


def workspace_children(
    agent: AgentView,
    *,
    digests: Sequence[str],
    runs: bool,
    services: Services | None = None,
    proxy_address: str = "",
    claim: CachedObject | None = None,
    limits: NamespaceLimits = NO_LIMITS,
    settings: Settings,
) -> WorkspaceChildren | None:
    """Return the children; None if the agent has no workspace.

    Args:
        digests: The digests of the tokens with which the agent may use its workspace.
        runs: False while the agent is suspended or asleep.
        services: The Services that hosts of `network.egress` name.
        proxy_address: The address of the egress proxy's Service; empty if it has none yet.
        claim: The claim with the files, if it exists.
        limits: The rules of the namespace, which the resources must meet.
    """
    workspace = agent.spec.workspace
    if workspace is None:
        return None
    owner, helpers = owner_of(agent), helpers_of(agent, limits, settings)
    selector = workspace_selector(owner.name)
    direct, is_proxied = _direct_rules(workspace, settings), has_hosts(workspace)
    reached = [*([proxy_rule(agent)] if is_proxied else []), *direct]
    wanted = files_request(agent)
    prepared = [
        *([claim_manifest(owner, compare_claim(wanted, claim))] if wanted else []),
        workspace_secret(owner, digests),
        workspace_policy(owner, selector, reached),
        _service(owner),
    ]
    if is_proxied:
        prepared += proxy_children(agent, services or {}, workspace=selector, runs=runs, helpers=helpers)
    environment = proxy_environment(proxy_address, workspace) if is_proxied and proxy_address else []
    return WorkspaceChildren(
        prepared=prepared,
        deployment=workspace_deployment(owner, workspace, runs=runs, environment=environment, helpers=helpers),
        egress_rules=[*proxied_rules(workspace), *direct],
        awaits_proxy=is_proxied and not proxy_address,
        unresolved_hosts=tuple(unresolved_hosts(agent, services or {}, settings)),
    )


def helpers_of(agent: AgentView, limits: NamespaceLimits, settings: Settings) -> HelperPodSettings:
    """Return the placement of the agent's helper pods."""
    return HelperPodSettings(settings=settings, template=agent.spec.pod_template or {}, limits=limits)


def _direct_rules(workspace: WorkspaceSpec, settings: Settings) -> list[EgressRule]:
    """Return what commands may reach without the proxy."""
    added = [rule for rule in workspace.network.egress if rule.to.host is None]
    return list(added_rules(added, why=FIELD, settings=settings))


def runner_rule(agent: AgentView) -> EgressRule:
    """Return the route from the agent to the runner of its workspace."""
    return EgressRule(
        to=f"the pod of its workspace, port {names.WORKSPACE_PORT}",
        why="spec.workspace",
        peers=(pods(workspace_selector(agent.name), namespace=agent.namespace),),
        ports=(("TCP", names.WORKSPACE_PORT),),
    )


def _service(owner: Owner) -> Manifest:
    port = {"name": "runner", "port": names.WORKSPACE_PORT, "targetPort": "runner", "protocol": "TCP"}
    return {
        **manifest("v1", "Service", name=names.workspace(owner.name), owner=owner),
        "spec": {"type": "ClusterIP", "selector": workspace_selector(owner.name), "ports": [port]},
    }
