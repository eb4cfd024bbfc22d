"""`agent.json`: the runtime's whole configuration, compiled from the Agent, its references and the catalog.

The runtime owns the shape (fleetwright_agent.config); a contract test validates what comes out of here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator import durations, names
from fleetwright_operator.catalog import Catalog, ModelDefaults
from fleetwright_operator.edges import Agent
from fleetwright_operator.endpoints import Endpoints
from fleetwright_operator.settings import Settings
from fleetwright_operator.skill_document import SkillContent

DEFAULT_MODEL_TIMEOUT = "120s"
DEFAULT_API_KEY = "api-key"


def api_key_reference(agent: Agent) -> tuple[str, str] | None:
    """(Secret, key) that holds the provider's key, or None."""
    reference = agent["spec"]["model"].get("apiKeySecretRef")
    return (reference["name"], reference.get("key", DEFAULT_API_KEY)) if reference else None


def model_base_url(agent: Agent, catalog: Catalog) -> str:
    model = agent["spec"]["model"]
    return str(model.get("baseURL") or catalog.lookup(model["name"]).base_url)


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
    """The document without its revision, which is a hash over it."""
    namespace, name = agent["metadata"]["namespace"], agent["metadata"]["name"]
    spec = agent["spec"]
    return {
        "version": 1,
        "name": name,
        "namespace": namespace,
        "description": spec.get("description", ""),
        "instructions": spec["instructions"],
        "url": endpoints.agent(namespace, name),
        "model": _model(agent, endpoints=endpoints, catalog=settings.catalog),
        "skills": [_skill(skill) for skill in skills],
        "mcpServers": [_server(use, servers[use["name"]], endpoints) for use in spec.get("mcpServers", ())],
        "peers": [_peer(peers[peer["name"]], endpoints) for peer in spec.get("peers", ())],
        "compaction": _compaction(spec.get("compaction", {})),
        "limits": dict(spec.get("limits", {})),
        "drainSeconds": drain_seconds(agent, settings),
    }


def _model(agent: Agent, *, endpoints: Endpoints, catalog: Catalog) -> dict[str, Any]:
    model = agent["spec"]["model"]
    defaults: ModelDefaults = catalog.lookup(model["name"])
    key = api_key_reference(agent)
    price = model.get("price") or defaults.price
    return {
        "name": model["name"],
        "baseUrl": endpoints.model_base_url or model_base_url(agent, catalog),
        "contextWindow": model.get("contextWindow", defaults.context_window),
        "maxOutputTokens": model.get("maxOutputTokens", defaults.max_output_tokens),
        "timeoutSeconds": durations.seconds(model.get("timeout", DEFAULT_MODEL_TIMEOUT)),
        **({"apiKeyFile": names.secret_file(*key)} if key else {}),
        **({"temperature": float(model["temperature"])} if "temperature" in model else {}),
        **({"price": dict(price)} if price else {}),
    }


def _skill(skill: SkillContent) -> dict[str, Any]:
    return {"name": skill.name, "description": skill.description, "digest": skill.digest}


def _server(use: Mapping[str, Any], server: Mapping[str, Any], endpoints: Endpoints) -> dict[str, Any]:
    tools = use.get("tools", {})
    return {
        "name": use["name"],
        "url": endpoints.server(server),
        "allow": list(tools.get("allow", ())),
        "deny": list(tools.get("deny", ())),
    }


def _peer(peer: Agent, endpoints: Endpoints) -> dict[str, Any]:
    namespace, name = peer["metadata"]["namespace"], peer["metadata"]["name"]
    return {
        "name": name,
        "namespace": namespace,
        "url": endpoints.agent(namespace, name),
        "description": peer["spec"].get("description", ""),
    }


def _compaction(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields; only the duration is spelt as a number. Defaults are the runtime's own."""
    policy = {key: dict(spec[key]) for key in ("trigger", "keep", "summary") if key in spec}
    if "timeout" in policy.get("summary", {}):
        policy["summary"]["timeoutSeconds"] = durations.seconds(policy["summary"].pop("timeout"))
    return {**({"mode": spec["mode"]} if "mode" in spec else {}), **policy}
