"""Chooses the endpoint of an agent from the options of a command."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fleetwright_cli.terminal.transport.cluster_agent import ClusterEndpoint
from fleetwright_cli.terminal.transport.dev_fleet import DevEndpoint, default_state, dev_agents, runs_in
from fleetwright_cli.terminal.transport.endpoint import AgentEndpoint, AgentTarget, FixedEndpoint


class AgentNotSpecified(ValueError):  # noqa: N818 - names what the command line lacks
    """The options do not name one agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressOptions:
    agent: str | None = None
    url: str | None = None
    token_file: Path | None = None
    state: Path | None = None
    folder: Path | None = None
    namespace: str | None = None
    context: str | None = None
    client: str | None = None
    """By default `default`. In a fleet of `dev` whose agent has no such client, its first one."""
    is_administrator: bool = False
    """True if the default in a fleet of `dev` is the first administrator."""


def endpoint_of(options: AddressOptions, environ: Mapping[str, str], here: Path) -> AgentEndpoint:
    """Return the endpoint.

    An address comes first, then a cluster if the options name one, then a local fleet of the given or of the current
    folder. Without any of them, the current context of the kubeconfig applies.

    Raises:
        AgentNotSpecified: The options do not name one agent.
        TransportError: No fleet runs in the given folder.
    """
    if options.url is not None:
        if not options.url.startswith(("http://", "https://")):
            raise AgentNotSpecified(f"--url: {options.url!r} is not an HTTP URL; use http:// or https://")
        token = options.token_file.read_text().strip() if options.token_file is not None else ""
        return FixedEndpoint(AgentTarget(options.url.rstrip("/"), token), options.agent or "")
    if options.token_file is not None:
        raise AgentNotSpecified("--token-file belongs to --url")
    on_cluster = options.namespace is not None or options.context is not None
    state = options.state or default_state(options.folder or here, environ)
    given = options.state is not None or options.folder is not None
    if not on_cluster and (given or runs_in(state)):
        agent = options.agent or _only(state)
        return DevEndpoint(state, agent, options.client, is_administrator=options.is_administrator)
    if options.agent is None:
        raise AgentNotSpecified("name the agent, or give --url")
    client = options.client or "default"
    return ClusterEndpoint(options.agent, namespace=options.namespace, context=options.context, client=client)


def _only(state: Path) -> str:
    agents = sorted(dev_agents(state))
    if len(agents) != 1:
        raise AgentNotSpecified(f"name one of the agents of the fleet: {', '.join(agents)}")
    return agents[0]
