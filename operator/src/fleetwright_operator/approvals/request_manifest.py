"""The manifest of an Approval. It contains only the request, because a person sets the decision."""

from collections.abc import Callable
from typing import Any

from fleetwright_api import names
from fleetwright_api.approval_sources import account_of
from fleetwright_api.call_authorization import Identity
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.tools import OTHER_REVIEWERS
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.approvals.approval_listing import OpenApproval
from fleetwright_operator.build.manifest import Manifest, manifest, owner_of


def request_manifest(agent: AgentView, ask: OpenApproval, find: Callable[[Identity], AgentView | None]) -> Manifest:
    """Return the manifest for a question. Args: `find` returns an agent, or None if it is unknown."""
    head = manifest(names.API_VERSION, names.APPROVAL, name=names.approval(agent.name, ask.ask), owner=owner_of(agent))
    return {**head, "spec": {"request": _request(agent, ask, find)}}


def _request(agent: AgentView, ask: OpenApproval, find: Callable[[Identity], AgentView | None]) -> dict[str, Any]:
    forbidden = [account_of(agent), *(_account(identity, find) for identity in ask.agents)]
    if agent.spec.approvals.by == OTHER_REVIEWERS and ask.person is not None:
        forbidden.append(ask.person)
    return {
        "agent": agent.name,
        "task": ask.task,
        "context": ask.context,
        "ask": ask.ask,
        "tool": ask.tool,
        "title": ask.title,
        "preview": ask.preview,
        **({"arguments": dict(ask.arguments)} if ask.arguments is not None else {}),
        "argumentsDigest": ask.digest,
        "requestedBy": ask.requested_by,
        "chain": list(ask.chain),
        "forbiddenDeciders": list(dict.fromkeys(forbidden)),
        "createdAt": format_timestamp(ask.created_at),
        **({"expiresAt": format_timestamp(ask.expires_at)} if ask.expires_at is not None else {}),
    }


def _account(identity: Identity, find: Callable[[Identity], AgentView | None]) -> str:
    """Return the username of an agent's ServiceAccount. For an unknown agent, this is the default account."""
    agent = find(identity)
    return names.service_account_user(*identity) if agent is None else account_of(agent)
