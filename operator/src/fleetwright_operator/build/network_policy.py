"""NetworkPolicies that deny everything except what a reference, a label or the installation requires."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.network.egress import EgressRule, policy_rules
from fleetwright_operator.build.network.ingress import IngressPeer, agents, ingress_rules


def ingress_policy(owner: Owner, sources: Sequence[IngressPeer]) -> Manifest:
    """Return the ingress policy.

    It is a separate policy because callers change immediately, but egress only with a revision.
    """
    return _policy(owner, name=names.agent_ingress(owner.name), ingress=ingress_rules(sources))


def egress_policy(owner: Owner, egress_rules: list[EgressRule]) -> Manifest:
    return _policy(owner, name=owner.name, egress=policy_rules(egress_rules))


def server_policy(owner: Owner, *, users: Sequence[str], port: int, dns: EgressRule) -> Manifest:
    """Return the policy of an MCP server: agents that name it and its probes may reach it, and it may reach only DNS.

    To let a server reach more, a user adds a policy that selects the server's label.
    """
    probes = {"podSelector": {"matchLabels": {names.probed_label(owner.kind): owner.name}}}
    rule = {
        "from": [*([{"podSelector": agents(users)}] if users else []), probes],
        "ports": [{"protocol": "TCP", "port": port}],
    }
    return _policy(owner, name=names.mcp_workload(owner.name), ingress=[rule], egress=policy_rules([dns]))


def workspace_policy(owner: Owner, selector: Mapping[str, str], egress_rules: list[EgressRule]) -> Manifest:
    """Return the policy of a workspace: only its agent may reach it, and it reaches only what the spec names."""
    agent = {"podSelector": {"matchLabels": owner.selector}}
    rule = {"from": [agent], "ports": [{"protocol": "TCP", "port": names.WORKSPACE_PORT}]}
    name = names.workspace(owner.name)
    return _policy(owner, name=name, selector=selector, ingress=[rule], egress=policy_rules(egress_rules))


def egress_proxy_policy(
    owner: Owner, selector: Mapping[str, str], *, workspace: Mapping[str, str], egress_rules: list[EgressRule]
) -> Manifest:
    """Return the policy of a workspace's egress proxy. Only the pod with the labels `workspace` may reach it."""
    rule = {
        "from": [{"podSelector": {"matchLabels": dict(workspace)}}],
        "ports": [{"protocol": "TCP", "port": names.EGRESS_PROXY_PORT}],
    }
    name = names.workspace_egress(owner.name)
    return _policy(owner, name=name, selector=selector, ingress=[rule], egress=policy_rules(egress_rules))


def _policy(
    owner: Owner,
    *,
    name: str,
    selector: Mapping[str, str] | None = None,
    ingress: list[Any] | None = None,
    egress: list[Any] | None = None,
) -> Manifest:
    """Return a policy for the pods of the owner, or for other pods. A direction that is None is left out."""
    directions = {"Ingress": ingress, "Egress": egress}
    return {
        **manifest("networking.k8s.io/v1", "NetworkPolicy", name=name, owner=owner),
        "spec": {
            "podSelector": {"matchLabels": dict(selector or owner.selector)},
            "policyTypes": [direction for direction, rules in directions.items() if rules is not None],
            # The API server drops an empty list. A policy without the list also denies everything.
            **{direction.lower(): rules for direction, rules in directions.items() if rules},
        },
    }
