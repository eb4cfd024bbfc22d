"""`agent.json`, the runtime's whole configuration, compiled from the Agent, its references and the catalog.

The runtime defines the schema (fleetwright_agent.config); a contract test validates this output.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import durations
from fleetwright_api.call_authorization import Agent
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.skill_document import SkillContent
from fleetwright_operator.build.config.auth_settings import (
    DIALECTS,
    declared_skills,
    dialects,
    media_type,
    takes_api_keys,
)
from fleetwright_operator.build.config.memory import audit_config, memory_config
from fleetwright_operator.build.config.models import models_config, other_model, output_of
from fleetwright_operator.build.config.permissions import widened
from fleetwright_operator.build.config.push import push_config
from fleetwright_operator.build.config.sub_agents import sub_agents_config
from fleetwright_operator.build.config.telemetry import telemetry_config
from fleetwright_operator.build.config.tool_access import (
    allowed_tools,
    denied_tools,
    digests,
    pinned_list,
    server_entry,
)
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.build.pod.memory_volume import is_ephemeral
from fleetwright_operator.settings import Settings


def drain_seconds(agent: Agent, settings: Settings) -> int:
    return int(agent["spec"].get("drainSeconds", settings.drain_seconds))


def agent_config(
    agent: Agent,
    *,
    skills: Sequence[SkillContent],
    servers: Mapping[str, Mapping[str, Any]],
    peers: Mapping[str, Agent],
    endpoints: Endpoints,
    settings: Settings,
) -> dict[str, Any]:
    """Return the document without its revision, which is a hash of the document."""
    namespace, name = agent["metadata"]["namespace"], agent["metadata"]["name"]
    spec = agent["spec"]
    needs = {skill.name: skill.permissions for skill in skills}
    return {
        "version": 1,
        "name": name,
        "namespace": namespace,
        "description": spec.get("description", ""),
        **_instructions(agent),
        "url": endpoints.agent(namespace, name),
        "model": models_config(spec, settings.catalog),
        "skills": [_skill(skill) for skill in skills],
        "mcpServers": [
            _server(widened(use, needs), servers[use["name"]], endpoints) for use in spec.get("mcpServers", ())
        ],
        "peers": [_peer(peers[peer["name"]], endpoints) for peer in spec.get("peers", ())],
        "compaction": _compaction(spec.get("compaction", {})),
        "limits": dict(spec.get("limits", {})),
        "drainSeconds": drain_seconds(agent, settings),
        **_people(spec),
        **_given(spec, "plugins"),
        **_given(spec, "toolSearch"),
        **_given({"subAgents": sub_agents_config(spec, settings.catalog)}, "subAgents"),
        **_given({"budgets": [_budget(each, spec, settings.catalog) for each in spec.get("budgets", ())]}, "budgets"),
        **_given({"enforcement": _enforcement(spec.get("enforcement", {}))}, "enforcement"),
        **_given({"audit": audit_config(agent)}, "audit"),
        **_given(spec.get("a2a", {}), "extensions"),
        **_given({"callerChoices": sorted(spec.get("a2a", {}).get("callerChoices", ()))}, "callerChoices"),
        **_given({"results": _results(spec)}, "results"),
        **_asked_for(agent),
        **({"deniedRanges": [str(each) for each in settings.stated_ranges]} if settings.stated_ranges else {}),
    }


def _asked_for(agent: Agent) -> dict[str, Any]:
    """Return only the fields that the spec sets, so that unused features do not change the revision."""
    memory, auth = agent["spec"].get("memory", {}), agent["spec"].get("auth", {})
    retention, origins = memory.get("taskRetention"), auth.get("allowedOrigins")
    remembered = memory_config(agent)
    return {
        **({"executor": executor["name"]} if (executor := agent["spec"].get("executor")) else {}),
        **({"requireRoutableUrl": True} if agent["spec"].get("a2a", {}).get("requireRoutableURL") else {}),
        **({"ephemeralMemory": True} if is_ephemeral(agent) else {}),
        **({"acceptApiKey": True} if takes_api_keys(agent) else {}),
        **({"dialects": dialects(agent)} if len(dialects(agent)) < len(DIALECTS) else {}),
        **push_config(agent),
        **telemetry_config(agent),
        **({"allowedOrigins": list(origins)} if origins is not None else {}),
        **({"taskRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **({"memory": remembered} if remembered else {}),
        **_given({"administrators": list(auth.get("administrators", ()))}, "administrators"),
    }


def _instructions(agent: Agent) -> dict[str, str]:
    mounted = instructions_file(agent)
    return {"instructionsFile": mounted.path} if mounted else {"instructions": agent["spec"]["instructions"]}


def _skill(skill: SkillContent) -> dict[str, Any]:
    return {"name": skill.name, "description": skill.description, "digest": skill.digest}


def _server(use: Mapping[str, Any], server: Mapping[str, Any], endpoints: Endpoints) -> dict[str, Any]:
    pinned = pinned_list(server)
    return {
        **server_entry(server, endpoints),
        "allow": allowed_tools(use, server) or [],
        "deny": denied_tools(use, server),
        **_given(use.get("tools", {}), "requireApproval"),
        **({"pinned": digests(pinned["tools"])} if pinned else {}),
    }


def _peer(peer: Agent, endpoints: Endpoints) -> dict[str, Any]:
    namespace, name = peer["metadata"]["namespace"], peer["metadata"]["name"]
    return {
        "name": name,
        "namespace": namespace,
        "url": endpoints.agent(namespace, name),
        "description": peer["spec"].get("description", ""),
    }


def _results(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the output schemas of the declared skills."""
    return [
        {"skill": skill["id"], "outputSchema": skill["outputSchema"], "mediaType": media_type(skill)}
        for skill in declared_skills(spec)
        if "outputSchema" in skill
    ]


def _people(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for questions and approvals. The runtime has the defaults."""
    approvals = {key: value for key, value in spec.get("approvals", {}).items() if key != "expiry"}
    if "expiry" in spec.get("approvals", {}):
        approvals["expirySeconds"] = durations.seconds(spec["approvals"]["expiry"])
    return {**({"approvals": approvals} if approvals else {}), **({"askHuman": True} if spec.get("askHuman") else {})}


def _budget(budget: Mapping[str, Any], spec: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    downgrade = budget.get("downgrade")
    if downgrade is None:
        return dict(budget)
    model = other_model(downgrade["model"], catalog, output=output_of(spec["model"], catalog))
    return {**budget, "downgrade": {**downgrade, "model": model}}


def _enforcement(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same fields, with windows as seconds."""
    limits = [
        {"tool": limit["tool"], "max": limit["max"], "windowSeconds": durations.seconds(limit["window"])}
        for limit in policy.get("limits", ())
    ]
    return {**policy, **({"limits": limits} if limits else {})}


def _given(spec: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the field if it is not empty, so that unused features do not change the revision."""
    return {field: spec[field]} if spec.get(field) else {}


def _compaction(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same fields, with durations as seconds. The runtime has the defaults."""
    groups = ("trigger", "keep", "prune", "summary", "pin", "archive", "guard")
    policy = {key: dict(spec[key]) for key in groups if key in spec}
    for group, field in (("summary", "timeout"), ("prune", "idleAfter"), ("archive", "retain")):
        if field in policy.get(group, {}):
            policy[group][f"{field}Seconds"] = durations.seconds(policy[group].pop(field))
    return {**({"mode": spec["mode"]} if "mode" in spec else {}), **policy}
