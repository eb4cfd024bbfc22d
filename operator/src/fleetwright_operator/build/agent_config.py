"""`agent.json`, the runtime's whole configuration, compiled from the Agent, its references and the catalog.

The runtime defines the schema (fleetwright_agent.config); a contract test validates this output.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleetwright_api import durations
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.skill_document import SkillContent
from fleetwright_api.spec.a2a import DIALECTS
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.compaction import CompactionSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_api.spec.tools import OTHER_REVIEWERS, REVIEWERS, EnforcementSpec, ServerUseSpec
from fleetwright_operator.build.config.auth_settings import dialects
from fleetwright_operator.build.config.gateway import gateway_config, peer_url_at_gateway
from fleetwright_operator.build.config.memory import audit_config, memory_config
from fleetwright_operator.build.config.models import models_config, other_model, output_of
from fleetwright_operator.build.config.prompts import prompts_config
from fleetwright_operator.build.config.push import push_config
from fleetwright_operator.build.config.skill_permissions import widened
from fleetwright_operator.build.config.sub_agents import sub_agents_config
from fleetwright_operator.build.config.telemetry import telemetry_config
from fleetwright_operator.build.config.tool_access import (
    allowed_tools,
    denied_tools,
    digests,
    pinned_list,
    server_entry,
)
from fleetwright_operator.build.config.workspace import workspace_config
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.settings import Settings


def drain_seconds(spec: AgentSpec, settings: Settings) -> int:
    return settings.drain_seconds if spec.drain_seconds is None else spec.drain_seconds


def agent_config(
    agent: AgentView,
    *,
    skills: Sequence[SkillContent],
    servers: Mapping[str, McpServerView],
    peers: Mapping[str, AgentView],
    endpoints: Endpoints,
    settings: Settings,
) -> dict[str, Any]:
    """Return the document without its revision, which is a hash of the document."""
    spec = agent.spec
    needs = {skill.name: skill.needs for skill in skills}
    return {
        "version": 1,
        "name": agent.name,
        "namespace": agent.namespace,
        "description": spec.description,
        **_instructions(spec),
        "url": endpoints.agent(agent.namespace, agent.name),
        "model": models_config(spec, settings.catalog),
        "skills": [_skill(skill) for skill in skills],
        "mcpServers": [_server(widened(use, needs), servers[use.name], endpoints) for use in spec.mcp_servers],
        "peers": [_peer(peers[peer.name], endpoints, settings) for peer in spec.peers],
        "compaction": _compaction(spec.compaction),
        "limits": encode(spec.limits),
        "drainSeconds": drain_seconds(spec, settings),
        **_people(spec),
        **_nonempty(
            {
                "plugins": [encode(plugin) for plugin in spec.plugins],
                "toolSearch": encode(spec.tool_search) if spec.tool_search else None,
                "subAgents": sub_agents_config(spec, settings.catalog),
                "budgets": [_budget(each, spec, settings.catalog) for each in spec.budgets],
                "callerRoles": [encode(each) for each in spec.caller_roles],
                "enforcement": _enforcement(spec.enforcement),
                "audit": audit_config(spec),
                "extensions": encode(spec.a2a.extensions),
                "callerChoices": sorted(spec.a2a.caller_choices),
                "results": _results(spec),
                "declaredSkills": _declared_skills(spec, skills),
            }
        ),
        **_asked_for(spec, settings),
        **workspace_config(agent, endpoints),
        **({"deniedRanges": [str(each) for each in settings.stated_ranges]} if settings.stated_ranges else {}),
    }


def _asked_for(spec: AgentSpec, settings: Settings) -> dict[str, Any]:
    """Return only the fields that the spec sets. Fields of unused features would change the revision."""
    retention, origins = spec.memory.task_retention, spec.auth.allowed_origins
    remembered = memory_config(spec)
    return {
        **({"executor": spec.executor.name} if spec.executor else {}),
        **({"requireRoutableUrl": True} if spec.a2a.require_routable_url else {}),
        **({"ephemeralMemory": True} if spec.memory.storage.ephemeral else {}),
        **({"acceptApiKey": True} if spec.auth.api_key else {}),
        **({"dialects": dialects(spec)} if len(dialects(spec)) < len(DIALECTS) else {}),
        **prompts_config(spec),
        **push_config(spec),
        **telemetry_config(spec),
        **gateway_config(spec, settings),
        **({"allowedOrigins": list(origins)} if origins is not None else {}),
        **({"taskRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **({"memory": remembered} if remembered else {}),
    }


def _instructions(spec: AgentSpec) -> dict[str, str]:
    mounted = instructions_file(spec)
    return {"instructionsFile": mounted.path} if mounted else {"instructions": spec.instructions or ""}


def _skill(skill: SkillContent) -> dict[str, Any]:
    return {"name": skill.name, "description": skill.description, "digest": skill.digest}


def _server(use: ServerUseSpec, server: McpServerView, endpoints: Endpoints) -> dict[str, Any]:
    pinned = pinned_list(server)
    return {
        **server_entry(server, endpoints),
        "allow": allowed_tools(use, server) or [],
        "deny": denied_tools(use, server),
        **_nonempty({"requireApproval": list(use.tools.require_approval)}),
        **({"pinned": digests(pinned["tools"])} if pinned else {}),
    }


def _peer(peer: AgentView, endpoints: Endpoints, settings: Settings) -> dict[str, Any]:
    at_gateway = peer_url_at_gateway(peer, settings)
    return {
        "name": peer.name,
        "namespace": peer.namespace,
        "url": at_gateway or endpoints.agent(peer.namespace, peer.name),
        "description": peer.spec.description,
        **({"throughGateway": True} if at_gateway else {}),
    }


def _results(spec: AgentSpec) -> list[dict[str, Any]]:
    """Return the output schemas of the declared skills."""
    return [
        {"skill": skill.id, "outputSchema": skill.output_schema, "mediaType": skill.output_media_type}
        for skill in spec.a2a.skills
        if skill.output_schema is not None
    ]


def _declared_skills(spec: AgentSpec, mounted: Sequence[SkillContent]) -> list[dict[str, str]]:
    """Return the skills that only the card shows; none for an agent with an executor, which has no prompt."""
    known = {skill.name for skill in mounted}
    declared = () if spec.executor else spec.a2a.skills
    return [{"name": skill.id, "description": skill.description} for skill in declared if skill.id not in known]


def _people(spec: AgentSpec) -> dict[str, Any]:
    """Return the settings for questions and approvals. The runtime applies the defaults."""
    approvals, expiry = encode(replace(spec.approvals, expiry=None, escalate_after=None)), spec.approvals.expiry
    if spec.approvals.by == OTHER_REVIEWERS:
        # Both values refuse the answers of callers. The operator forbids the decision of the person who asks.
        approvals["by"] = REVIEWERS
    if expiry is not None:
        approvals["expirySeconds"] = durations.seconds(expiry)
    return {**({"approvals": approvals} if approvals else {}), **({"askHuman": True} if spec.ask_human else {})}


def _budget(budget: BudgetSpec, spec: AgentSpec, catalog: Catalog) -> dict[str, Any]:
    section, downgrade = encode(budget), budget.downgrade
    if downgrade is None:
        return section
    model = other_model(downgrade.model, catalog, output=output_of(spec.model, catalog))
    return {**section, "downgrade": {**section["downgrade"], "model": model}}


def _enforcement(policy: EnforcementSpec) -> dict[str, Any]:
    """Return the fields of the spec, with windows in seconds."""
    limits = [
        {"tool": limit.tool, "max": limit.max, "windowSeconds": durations.seconds(limit.window)}
        for limit in policy.limits or ()
    ]
    return {**encode(policy), **({"limits": limits} if limits else {})}


def _nonempty(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections that are not empty. Sections of unused features would change the revision."""
    return {name: section for name, section in sections.items() if section}


def _compaction(spec: CompactionSpec) -> dict[str, Any]:
    """Return the fields of the spec, with durations in seconds. The runtime applies the defaults."""
    policy = encode(spec)
    for group, field in (("summary", "timeout"), ("prune", "idleAfter"), ("archive", "retain")):
        if field in policy.get(group, {}):
            policy[group][f"{field}Seconds"] = durations.seconds(policy[group].pop(field))
    return policy
