"""NetworkPolicies: nothing in or out but what a reference, a label or the installation asks for."""

from collections.abc import Sequence
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.desired.additions import added_callers
from fleetwright_operator.desired.addresses import pods
from fleetwright_operator.desired.egress import Route, policy_rules
from fleetwright_operator.desired.manifest import Manifest, Owner, manifest
from fleetwright_operator.edges import Agent, Identity
from fleetwright_operator.settings import Settings


def ingress_policy(owner: Owner, agent: Agent, *, callers: Sequence[Identity], settings: Settings) -> Manifest:
    """Apart from the ways out: who may call follows at once, where a revision may go comes with the revision."""
    rules = [_a2a(owner.name, callers), *added_callers(agent), *_ops(settings)]
    return _policy(owner, name=names.agent_ingress(owner.name), ingress=rules)


def egress_policy(owner: Owner, routes: list[Route]) -> Manifest:
    return _policy(owner, name=owner.name, egress=policy_rules(routes))


def server_policy(owner: Owner, *, users: Sequence[str], port: int, dns: Route) -> Manifest:
    """A tool server is reached by the agents that name it and by its own probes, and reaches nothing but DNS.

    Policies add up: who wants a server to reach more writes a policy for its label.
    """
    probes = {"podSelector": {"matchLabels": {names.probed_label(owner.kind): owner.name}}}
    rule = {
        "from": [*([{"podSelector": _agents(users)}] if users else []), probes],
        "ports": [{"protocol": "TCP", "port": port}],
    }
    return _policy(owner, name=names.mcp_workload(owner.name), ingress=[rule], egress=policy_rules([dns]))


def _policy(owner: Owner, *, name: str, ingress: list[Any] | None = None, egress: list[Any] | None = None) -> Manifest:
    """Says nothing of a direction that is None."""
    ways = {"Ingress": ingress, "Egress": egress}
    return {
        **manifest("networking.k8s.io/v1", "NetworkPolicy", name=name, owner=owner),
        "spec": {
            "podSelector": {"matchLabels": owner.selector},
            "policyTypes": [way for way, rules in ways.items() if rules is not None],
            # The API server does not keep an empty list; none at all closes as well.
            **{way.lower(): rules for way, rules in ways.items() if rules},
        },
    }


def _a2a(agent: str, callers: Sequence[Identity]) -> dict[str, Any]:
    by_namespace: dict[str, list[str]] = {}
    for space, name in callers:
        by_namespace.setdefault(space, []).append(name)
    invited = {"podSelector": {"matchLabels": {names.MAY_CALL_LABEL: agent}}}
    return {
        "from": [*(_agents_of(space, found) for space, found in sorted(by_namespace.items())), invited],
        "ports": [{"protocol": "TCP", "port": names.A2A_PORT}],
    }


def _agents_of(namespace: str, agents: Sequence[str]) -> dict[str, Any]:
    return {**pods({}, namespace=namespace), "podSelector": _agents(agents)}


def _agents(agents: Sequence[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": names.AGENT_LABEL, "operator": "In", "values": sorted(agents)}]}


def _ops(settings: Settings) -> list[dict[str, Any]]:
    readers = [source for source in (settings.monitoring, settings.operator) if source is not None]
    if not readers:
        return []
    return [
        {
            "from": [pods(source.labels, namespace=source.namespace) for source in readers],
            "ports": [{"protocol": "TCP", "port": names.OPS_PORT}],
        }
    ]
