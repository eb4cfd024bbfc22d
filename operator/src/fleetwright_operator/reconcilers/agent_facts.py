"""The health of an Agent and the fields of its status, from what was observed and built. Reads only the cache."""

from typing import Any

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.build.agent import AgentChildren, ingress_peers
from fleetwright_operator.build.auth_files import client_names
from fleetwright_operator.build.deployment import CONTAINER, STARTUP_SECONDS
from fleetwright_operator.build.network.ingress import ingress_status
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.reconcilers.agent_credentials import AgentCredentials
from fleetwright_operator.reconcilers.agent_parts import (
    UNMANAGED,
    egress_status,
    previous_revision,
    skill_permissions,
)
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.audit_record import Record, record_of
from fleetwright_operator.status.runtime_report import with_memory_wait, with_stall
from fleetwright_operator.status.starting_servers import connection_seconds_left, has_started
from fleetwright_operator.status.startup_probe import seconds_until_deadline, with_failed_startup_probe
from fleetwright_operator.status.workload_health import WorkloadHealth, deployment_health
from fleetwright_operator.validate.fleet_checks import suspension_reason


def agent_health(
    observed: ObservedAgent, cache: Cache, revision: str, *, now: int, asleep: bool = False
) -> WorkloadHealth:
    """Return the health of the agent. Args: `now` is in seconds since the epoch."""
    space, name = observed.entry.namespace, observed.entry.name
    health = deployment_health(
        cache.get("Deployment", space, name),
        observed.of_kind("Pod"),
        revision=revision,
        claim=observed.memory_claim,
        suspended=suspension_reason(observed.agent.spec, observed.team),
        asleep=asleep,
    )
    health = with_stall(health, observed.report, revision=revision, is_running=_is_running(observed))
    health = with_memory_wait(health, observed.report)
    pods = observed.of_kind("Pod")
    return with_failed_startup_probe(health, pods, container=CONTAINER, deadline=STARTUP_SECONDS, now=now)


def next_startup_after(observed: ObservedAgent, *, now: int) -> int | None:
    """Return after how many seconds a starting runtime counts as silent; None if there is none."""
    return seconds_until_deadline(observed.of_kind("Pod"), container=CONTAINER, deadline=STARTUP_SECONDS, now=now)


def list_started_servers(observed: ObservedAgent, *, now: int) -> list[str]:
    """Return the McpServers of the agent that it should have reached. Args: `now` is in seconds since the epoch."""
    return [name for name, server in observed.servers.items() if server and has_started(server.status, now=now)]


def next_connection_after(observed: ObservedAgent, *, now: int) -> int | None:
    """Return after how many seconds a server that the agent does not reach counts as unreachable; None without one."""
    reports = observed.report.servers if observed.report else {}
    lost = [
        server for name, server in observed.servers.items() if server and name in reports and reports[name].unreachable
    ]
    return min((wait for server in lost if (wait := connection_seconds_left(server.status, now=now))), default=None)


def _is_running(observed: ObservedAgent) -> bool:
    statuses = [each for pod in observed.of_kind("Pod") for each in pod.projection.get("containerStatuses", ())]
    return any(each.get("name") == CONTAINER and "running" in each.get("state", {}) for each in statuses)


def wants_pod(observed: ObservedAgent) -> bool:
    """Return whether the Deployment exists and wants a pod. The Deployment of a sleeping agent wants none."""
    deployment = observed.child("Deployment", observed.entry.name)
    return deployment is not None and deployment.projection["replicas"] != 0


def deployments_of(observed: ObservedAgent) -> list[CachedObject]:
    """Return the agent's own Deployment, and after it those of its workspace. Empty if it has no Deployment."""
    workspace, own = observed.workspace, observed.child("Deployment", observed.entry.name)
    others = [workspace.deployment, workspace.proxy] if workspace else []
    if own is None or not _is_controlled(own, observed.entry):
        return []
    return [own, *(each for each in others if each is not None and _is_controlled(each, observed.entry))]


def _is_controlled(deployment: CachedObject, agent: CachedObject) -> bool:
    controller = deployment.controller
    return controller is not None and controller.uid == agent.uid and not deployment.deleting


def serving_note(observed: ObservedAgent) -> str:
    """Return which revision keeps serving, as the end of a message; empty if none serves."""
    deployment = observed.child("Deployment", observed.entry.name)
    # The status of a Deployment may still count a pod that ends because the agent sleeps.
    if deployment is None or not wants_pod(observed) or not deployment.projection["status"].get("availableReplicas"):
        return ""
    return f"; revision {deployment.projection['revision']} keeps serving"


def agent_facts(
    observed: ObservedAgent, children: AgentChildren, held: AgentCredentials, *, settings: Settings
) -> dict[str, Any]:
    """Return the fields of the status that describe the written children."""
    rendered = children.rendered
    return {
        "url": rendered.config["url"],
        "revision": rendered.revision,
        "previousRevision": previous_revision(observed.agent.status, rendered.revision),
        "card": {
            "digest": children.card.digest,
            "skills": len(rendered.card["skills"]),
            **({"signedBy": [key.key.kid for key in observed.card_keys]} if observed.card_keys else {}),
        },
        "skills": [{key: skill[key] for key in ("name", "digest")} for skill in rendered.config["skills"]],
        "clients": [
            {"name": client, "secret": names.agent_client(observed.entry.name, client)}
            for client in client_names(observed.agent.spec)
        ],
        "credentials": {"expires": format_timestamp(held.expires)} if held.expires is not None else None,
        "memory": _memory(observed),
        "egress": egress_status(observed, children),
        **(
            ingress_facts(observed, settings)
            or {"ingress": [{"from": "wherever other policies allow", "why": UNMANAGED}]}
        ),
        "permissions": skill_permissions(observed),
    }


def ingress_facts(observed: ObservedAgent, settings: Settings) -> dict[str, Any]:
    """Return the ingress part of the status, or nothing if no policy was written."""
    sources = ingress_peers(observed.agent, callers=observed.callers, settings=settings)
    return {"ingress": ingress_status(sources)} if sources else {}


def audit_trail(observed: ObservedAgent, *, now: str) -> Record | None:
    """Return the record of the audit trail; None if the trail is off or is deleted with its pod."""
    if observed.agent.spec.memory.storage.ephemeral or observed.agent.spec.audit.mode == "Off":
        return None
    return record_of(
        observed.entry.projection["status"].get("auditTrail"),
        observed.report.audit if observed.report else None,
        acknowledged=observed.entry.annotations.get(names.AUDIT_ACKNOWLEDGED_ANNOTATION, ""),
        now=now,
    )


def _memory(observed: ObservedAgent) -> dict[str, Any] | None:
    if observed.agent.spec.memory.storage.ephemeral:
        return None
    name, claim = names.agent_memory(observed.entry.name), observed.memory_claim
    older = claim is not None and claim.created < observed.entry.created
    return {"claim": name, **({"reattached": True} if older else {})}
