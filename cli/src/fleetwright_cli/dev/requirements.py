"""Checks what a fleet on one machine needs beyond the CRDs' rules. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_cli.dev.manifests import InvalidFleet, LocalFleet


def require_obeyable(name: str, config: Mapping[str, Any]) -> None:
    """Validate the configuration with the runtime's model. On a cluster, the CRD's rules reject such values earlier."""
    try:
        AgentConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidFleet(f"Agent {name}: {where}: {first['msg']}") from None


def require_references(name: str, spec: AgentSpec, fleet: LocalFleet) -> None:
    if any(peer.namespace is not None for peer in spec.peers):
        raise InvalidFleet(f"Agent {name}: spec.peers: a local run is one namespace; remove the peer's namespace")
    named: tuple[tuple[str, list[str], Collection[str]], ...] = (
        ("skills", [skill.name for skill in spec.skills], fleet.skills),
        ("mcpServers", [use.name for use in spec.mcp_servers], fleet.servers),
        ("peers", [peer.name for peer in spec.peers], fleet.agents),
    )
    for key, references, known in named:
        for reference in references:
            if reference not in known:
                raise InvalidFleet(f"Agent {name}: spec.{key}: {reference!r} is not in this folder")


def require_no_secrets(name: str, spec: AgentSpec, fleet: LocalFleet) -> None:
    for use in spec.mcp_servers:
        remote = fleet.servers[use.name].spec.remote
        if remote is None:
            continue
        for field_name, value in (("headersFrom", remote.headers_from), ("caSecretRef", remote.ca_secret_ref)):
            if value:
                place = f"Agent {name}: McpServer {use.name}: spec.remote.{field_name}"
                raise InvalidFleet(f"{place}: a local run has no Secrets; leave it out here")
