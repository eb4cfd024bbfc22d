"""The endpoint of an agent, with the token of an administrator."""

import os
from pathlib import Path
from typing import Any, Final

import click

from fleetwright_api import names
from fleetwright_api.spec.agent import parse_agent
from fleetwright_cli.administration.admin_client import AdminClient
from fleetwright_cli.terminal.commands import ADDRESS, address_options
from fleetwright_cli.terminal.transport.addresses import endpoint_of
from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.errors import AdministratorMissingError
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, place_options

_CLIENT: Final = click.option(
    "--client", help="Client whose token is used. By default the first of the Agent's spec.auth.administrators."
)
ADMIN_ADDRESS: Final = (*ADDRESS[:-1], _CLIENT)
"""The options that choose an agent, with an administrator as the client."""


async def admin_client(agent: str | None, options: dict[str, Any]) -> AdminClient:
    """Return a client for the agent that the options choose.

    Raises:
        AgentNotSpecified: The options do not name one agent.
        TransportError: The agent is not found, or has no administrator.
    """
    client = options["client"]
    endpoint = endpoint_of(address_options(agent, is_administrator=True, **options), os.environ, Path.cwd())
    if agent is not None and client is None and isinstance(endpoint, ClusterEndpoint):
        place = {"context": options["context"], "namespace": options["namespace"]}
        endpoint = ClusterEndpoint(agent, **place, client=await administrator_of(agent, **place))
    return AdminClient(endpoint)


async def administrator_of(agent: str, *, context: str | None, namespace: str | None, kubectl: str = "kubectl") -> str:
    """Return the first administrator of an agent in a cluster. Raises: TransportError."""
    place = place_options(context, namespace)
    found = await kubectl_json(kubectl, (*place, "get", f"agents.{names.GROUP}", agent))
    administrators = parse_agent(found).spec.auth.administrators
    if not administrators:
        raise AdministratorMissingError(
            f"agent {agent} has no administrator; name a client in spec.auth.administrators"
        )
    return administrators[0]
