"""Builds the tools that call other agents, and their HTTP client. Only agents that may call some import this module."""

from collections.abc import Callable
from functools import partial

import httpx

from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.call_records import CallRecords
from fleetwright_agent.tools.peers.client import peer_client
from fleetwright_agent.tools.peers.direct import DirectCalls
from fleetwright_agent.tools.peers.dpop_auth import DPoPAuth, DPoPKey
from fleetwright_agent.tools.peers.exchange import TokenExchange
from fleetwright_agent.tools.peers.gateway_calls import GatewayCalls, read_gateway_token
from fleetwright_agent.tools.peers.questions import undelivered_in
from fleetwright_agent.tools.peers.retries import Sleep
from fleetwright_agent.tools.peers.tool import PeerTools, opaque_token
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.other_agents import OtherAgents


def build_other_agents(dependencies: TurnDependencies, records: CallRecords, sleep: Sleep) -> OtherAgents:
    """Build the tools that call other agents, and open their HTTP client. No request is sent."""
    config, layout = dependencies.config, dependencies.layout
    gateway = [config.gateway.url] if config.gateway else []
    key = DPoPKey(dependencies.clock.now)
    opaque, monotonic = partial(opaque_token, config.peers, layout), dependencies.clock.monotonic
    auth = DPoPAuth(key, opaque=opaque, monotonic=monotonic) if config.gateway else None
    client = peer_client([*(peer.url for peer in config.peers), *gateway], denied=config.denied_ranges, auth=auth)
    direct = None if auth is None else _direct(dependencies, client, key, auth, sleep)
    peers, fleet = _peers(dependencies, client, direct, records, sleep), _fleet(dependencies, client, records, sleep)
    return OtherAgents(
        peers=peers,
        fleet=fleet,
        background=fleet[0].background if fleet else None,
        over=_over(peers, *fleet, records),
        closing=(client, records),
    )


def _direct(
    dependencies: TurnDependencies, client: httpx.AsyncClient, key: DPoPKey, auth: DPoPAuth, sleep: Sleep
) -> DirectCalls | None:
    config, layout, now = dependencies.config, dependencies.layout, dependencies.clock.now
    if config.gateway is None or not config.peers:
        return None
    read_token = partial(read_gateway_token, layout)
    exchange = TokenExchange(config.gateway.url, client, key, read_token=read_token, now=now, sleep=sleep)
    return DirectCalls(exchange, auth, dependencies.delegations, now=now)


def _peers(
    dependencies: TurnDependencies,
    client: httpx.AsyncClient,
    direct: DirectCalls | None,
    records: CallRecords,
    sleep: Sleep,
) -> PeerTools:
    config = dependencies.config
    me, kept = f"{config.namespace}/{config.name}", dependencies.storage.questions
    return PeerTools(
        me,
        config.peers,
        dependencies.layout,
        client,
        kept,
        records=records,
        is_alone=config.gateway is None,
        # The model may ask a declared peer with ask_agent too, and let the task run in the background.
        is_undelivered=undelivered_in(dependencies.storage.delegated),
        outlived=not config.ephemeral_memory,
        direct=direct,
        through_gateway=GatewayCalls(dependencies.layout, dependencies.delegations, now=dependencies.clock.now),
        sleep=sleep,
    )


def _over(*parts: PeerTools | FleetTools | CallRecords) -> Callable[[str, str], None]:
    """Return a function that ends the open questions and the calls of a task with all other agents."""

    def over(owner: str, task_id: str) -> None:
        for each in parts:
            each.over(owner, task_id)

    return over


def _fleet(
    dependencies: TurnDependencies, client: httpx.AsyncClient, records: CallRecords, sleep: Sleep
) -> tuple[FleetTools, ...]:
    config = dependencies.config
    if config.gateway is None:
        return ()
    tools = FleetTools(
        f"{config.namespace}/{config.name}",
        config.gateway.url,
        dependencies.layout,
        client,
        dependencies.storage.questions,
        dependencies.storage.delegated,
        dependencies.delegations,
        records=records,
        now=dependencies.clock.now,
        declared=[f"{peer.namespace}/{peer.name}" for peer in config.peers],
        outlived=not config.ephemeral_memory,
        sleep=sleep,
    )
    return (tools,)
