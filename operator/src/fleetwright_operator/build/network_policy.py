"""NetworkPolicies that deny everything except what a reference, a label or the installation requires."""

from collections.abc import Sequence
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


def _policy(owner: Owner, *, name: str, ingress: list[Any] | None = None, egress: list[Any] | None = None) -> Manifest:
    """Return a policy. A direction that is None is left out."""
    directions = {"Ingress": ingress, "Egress": egress}
    return {
        **manifest("networking.k8s.io/v1", "NetworkPolicy", name=name, owner=owner),
        "spec": {
            "podSelector": {"matchLabels": owner.selector},
            "policyTypes": [direction for direction, rules in directions.items() if rules is not None],
            # The API server drops an empty list. A policy without the list also denies everything.
            **{direction.lower(): rules for direction, rules in directions.items() if rules},
        },
    }
