"""What an Agent's children and its status consist of, from what was observed. Pure."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from fleetwright_api.skill_document import SkillContent
from fleetwright_operator.build.agent import AgentChildren, AgentParts
from fleetwright_operator.build.config.skill_permissions import permissions_status
from fleetwright_operator.build.deployment import SkillSnapshot
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.pod.skill_source import RemoteSkill
from fleetwright_operator.credentials.keyring import card_signatures
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.reconcilers.agent_credentials import AgentCredentials
from fleetwright_operator.settings import Settings

UNMANAGED = "spec.network.policy is None"


def previous_revision(status: Mapping[str, Any], revision: str) -> str | None:
    """Return the revision before this one. Applying its spec again restores it."""
    last = status.get("revision")
    previous: str | None = status.get("previousRevision") if last == revision else last
    return previous


def skill_permissions(observed: ObservedAgent) -> dict[str, Any] | None:
    servers = {name: server for name, server in observed.servers.items() if server is not None}
    return permissions_status(observed.agent.spec, servers, observed.needs)


def egress_status(observed: ObservedAgent, children: AgentChildren) -> list[dict[str, str]]:
    if not is_managed(observed.agent.spec):
        return [{"to": "wherever other policies allow", "why": UNMANAGED}]
    return [{"to": route.to, "why": route.why} for route in children.egress_rules]


def agent_parts(observed: ObservedAgent, held: AgentCredentials, settings: Settings) -> AgentParts:
    """Collect what the children are made from. The checks have passed, so every reference exists."""
    skills = {name: skill for name, skill in observed.skills.items() if skill is not None}
    return AgentParts(
        agent=observed.agent,
        skills={
            name: SkillContent(
                name=name,
                description=skill.status["description"],
                digest=skill.status["digest"],
                needs=skill.needs,
            )
            for name, skill in skills.items()
        },
        snapshots={
            **{
                name: SkillSnapshot(name=held.name, keys=held.projection["keys"])
                for name, held in observed.snapshots.items()
            },
            **{
                name: RemoteSkill(source=skill.accepted_source, digest=skill.status["digest"])
                for name, skill in skills.items()
                if skill.accepted_source is not None
            },
        },
        servers={name: server for name, server in observed.servers.items() if server is not None},
        peers=observed.existing_peers,
        callers=observed.callers,
        services=observed.services,
        tokens=held.tokens,
        pending=held.pending,
        environment=observed.environment_versions,
        memory_claim=observed.memory_claim,
        sign=partial(card_signatures, ring=observed.card_keys, jku=settings.key_set_url),
    )


def plugin_names(observed: ObservedAgent) -> tuple[str, ...]:
    return tuple(plugin.name for plugin in observed.agent.spec.plugins)
