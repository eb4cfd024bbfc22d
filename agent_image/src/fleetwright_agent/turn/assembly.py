"""Builds the turn of one agent from its configuration: the only place that chooses real parts."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx2

from fleetwright_agent.memory.call_windows import CallWindows
from fleetwright_agent.memory.memories import memories
from fleetwright_agent.memory.open_questions import OpenQuestions
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.tools.breaker import Breaker
from fleetwright_agent.tools.knowledge import knowledge_tools
from fleetwright_agent.tools.mcp import McpConnection
from fleetwright_agent.tools.peers import PeerCalls, peer_client
from fleetwright_agent.tools.skills import skill_reader, skill_tools
from fleetwright_agent.trail import redactor
from fleetwright_agent.turn.frames import Turn
from fleetwright_agent.turn.graph import GraphTurn
from fleetwright_agent.turn.links import model_links
from fleetwright_agent.turn.middleware.auditing import Auditor
from fleetwright_agent.turn.middleware.enforcement import Enforcement
from fleetwright_agent.turn.middleware.model_calls import ModelCalls
from fleetwright_agent.turn.middleware.skill_fence import SkillFence
from fleetwright_agent.turn.middleware.tool_calls import ToolCalls
from fleetwright_agent.turn.middleware.traced import TracedTools
from fleetwright_agent.turn.models import build_chat
from fleetwright_agent.turn.outbound import ModelTransport
from fleetwright_agent.turn.people import guarded_by_policy, servers_of
from fleetwright_agent.turn.supplies import Supplies
from fleetwright_agent.turn.toolbox import Toolbox


def build_turn(supplies: Supplies, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Turn:
    """Opens the HTTP clients; nothing is sent yet. Whoever opened the conversations and the trail closes them.

    Args: `sleep` waits before a call of the model is tried again.
    """
    config, layout, metrics = supplies.config, supplies.layout, supplies.metrics
    redact = redactor(layout).text
    remembered = memories(supplies.conversations, layout.memory, redact=redact)
    clients = [
        httpx2.AsyncClient(transport=ModelTransport(endpoint, layout))
        for endpoint in (config.model, *config.model.fallbacks)
    ]
    chats = [
        build_chat(endpoint, layout, client)
        for endpoint, client in zip((config.model, *config.model.fallbacks), clients, strict=True)
    ]
    peers_client = peer_client(config.peers, denied=config.denied_ranges)
    peers = PeerCalls(
        f"{config.namespace}/{config.name}",
        config.peers,
        layout,
        peers_client,
        OpenQuestions(supplies.conversations),
        outlived=not config.ephemeral_memory,
    )
    enforcement = Enforcement(config.enforcement, CallWindows(supplies.conversations, now_ns=time.time_ns))
    auditor = Auditor(supplies.trail, config.audit.mode)
    fence = SkillFence(skill_reader(config.skills, layout))
    calls = ModelCalls(config.model, metrics, books=supplies.books, sleep=sleep)
    return GraphTurn(
        config,
        chat=chats[0],
        links=model_links(supplies, views=remembered.views, calls=calls, chats=chats),
        runner=TracedTools(
            ToolCalls(
                config.limits, metrics, remembered.journal, enforcement=enforcement, fence=fence, auditor=auditor
            ),
            supplies.tracing,
        ),
        memories=remembered,
        toolbox=Toolbox(
            config,
            tools=(*skill_tools(config.skills, layout), *peers.tools()),
            personal=knowledge_tools(supplies.knowledge, config.memory.knowledge, redact),
            servers=_servers(supplies),
            views=remembered.views,
            denies=enforcement.denies,
        ),
        unknown=auditor.unknown,
        closing=(peers, *clients, peers_client),
        over=peers.over,
    )


def _servers(supplies: Supplies) -> list[McpConnection]:
    config = supplies.config
    return [
        McpConnection(
            server,
            supplies.layout,
            offers=supplies.offers,
            guarded=guarded_by_policy(config, server.name),
            denied=config.denied_ranges,
            breaker=_breaker(server.name, supplies.metrics),
        )
        for server in servers_of(config)
    ]


def _breaker(server: str, metrics: Metrics) -> Breaker:
    is_open = metrics.mcp_breaker_open.labels(server)
    return Breaker(on_change=lambda opened: is_open.set(int(opened)))
