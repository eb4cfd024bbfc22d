"""Builds the turn of one agent from its configuration: the only place that chooses real parts."""

import time

import httpx2

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.layout import Layout
from fleetwright_agent.memory.call_windows import CallWindows
from fleetwright_agent.memory.checkpoints import ConversationSaver
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.journal import Journal
from fleetwright_agent.memory.open_questions import OpenQuestions
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.memory.spending import Spending
from fleetwright_agent.memory.views import Views
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.security.audit import AuditTrail
from fleetwright_agent.tools.mcp import McpConnection
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.tools.peers import PeerCalls, peer_client
from fleetwright_agent.tools.skills import skill_tools
from fleetwright_agent.trail import redactor
from fleetwright_agent.turn.books import Books
from fleetwright_agent.turn.frames import Turn
from fleetwright_agent.turn.graph import GraphTurn
from fleetwright_agent.turn.middleware.auditing import Auditor
from fleetwright_agent.turn.middleware.enforcement import Enforcement
from fleetwright_agent.turn.middleware.model_calls import ModelCalls
from fleetwright_agent.turn.models import build_chat
from fleetwright_agent.turn.outbound import ModelTransport
from fleetwright_agent.turn.people import guarded_by_policy, servers_of


def build_turn(
    config: AgentConfig,
    layout: Layout,
    metrics: Metrics,
    conversations: Database,
    offers: Offers,
    trail: AuditTrail,
    books: Books,
) -> Turn:
    """Opens the HTTP clients; nothing is sent yet. Whoever opened the conversations and the trail closes them."""
    model_client = httpx2.AsyncClient(transport=ModelTransport(config.model, layout))
    peers_client = peer_client(config.peers, denied=config.denied_ranges)
    peers = PeerCalls(
        f"{config.namespace}/{config.name}",
        config.peers,
        layout,
        peers_client,
        OpenQuestions(conversations),
        outlived=not config.ephemeral_memory,
    )
    return GraphTurn(
        config,
        layout=layout,
        chat=build_chat(config.model, layout, model_client),
        saver=ConversationSaver(conversations),
        journal=Journal(conversations),
        spending=Spending(conversations),
        sessions=Sessions(layout.memory / "sessions", redact=redactor(layout).text),
        views=Views(conversations),
        tools=(*skill_tools(config.skills, layout), *peers.tools()),
        servers=[
            McpConnection(
                server,
                layout,
                offers=offers,
                guarded=guarded_by_policy(config, server.name),
                denied=config.denied_ranges,
            )
            for server in servers_of(config)
        ],
        metrics=metrics,
        model_calls=ModelCalls(config.model, metrics, books=books),
        enforcement=Enforcement(config.enforcement, CallWindows(conversations, now_ns=time.time_ns)),
        auditor=Auditor(trail, config.audit.mode),
        closing=(peers, model_client, peers_client),
        over=peers.over,
    )
