"""All children of a workspace, in the order in which they are written. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.addresses import pods
from fleetwright_operator.build.network.egress import EgressRule
from fleetwright_operator.build.network.network_additions import added_rules
from fleetwright_operator.build.network_policy import workspace_policy
from fleetwright_operator.build.secrets import workspace_secret
from fleetwright_operator.build.workspace.deployment import workspace_deployment, workspace_selector
from fleetwright_operator.build.workspace.volume import files_claim
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceChildren:
    prepared: list[Manifest]
    """What the pod needs: its volume, its Secret, its policy and its Service."""
    deployment: Manifest
    egress_rules: list[EgressRule]

    @property
    def manifests(self) -> list[Manifest]:
        return [*self.prepared, self.deployment]


def workspace_children(
    agent: AgentView, *, digests: Sequence[str], runs: bool, settings: Settings
) -> WorkspaceChildren | None:
    """Return the children; None if the agent has no workspace.

    Args:
        digests: The digests of the tokens with which the agent may use its workspace.
        runs: False while the agent is suspended or asleep.
    """
    workspace = agent.spec.workspace
    if workspace is None:
        return None
    owner = owner_of(agent)
    claim = files_claim(owner, workspace)
    rules = workspace_egress_rules(workspace, settings)
    prepared = [
        *([claim] if claim else []),
        workspace_secret(owner, digests),
        workspace_policy(owner, workspace_selector(owner.name), rules),
        _service(owner),
    ]
    deployment = workspace_deployment(owner, workspace, runs=runs, settings=settings)
    return WorkspaceChildren(prepared=prepared, deployment=deployment, egress_rules=rules)


def workspace_egress_rules(workspace: WorkspaceSpec, settings: Settings) -> list[EgressRule]:
    """Return what commands of the workspace may reach, each with its reason."""
    return list(added_rules(workspace.network.egress, why="spec.workspace.network.egress", settings=settings))


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
