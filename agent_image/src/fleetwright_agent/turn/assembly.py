"""Builds the turn of one agent from its configuration. Only this module chooses the implementations."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import httpx
import httpx2

from fleetwright_agent.audit.factory import redactor
from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.protocol.turn import Turn
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.tools.approval_policy import governed_tools
from fleetwright_agent.tools.fleet.tools import FleetTools, read_gateway_token
from fleetwright_agent.tools.peers.client import peer_client
from fleetwright_agent.tools.peers.direct import DirectCalls
from fleetwright_agent.tools.peers.dpop_auth import DPoPAuth, DPoPKey
from fleetwright_agent.tools.peers.exchange import TokenExchange
from fleetwright_agent.tools.peers.tool import PeerTools, opaque_token
from fleetwright_agent.tools.registry import ToolRegistry, built_in_providers
from fleetwright_agent.tools.skills.loading import skill_reader
from fleetwright_agent.turn.compaction.policy import room
from fleetwright_agent.turn.compaction.recall import ArchiveTools
from fleetwright_agent.turn.conversation_undo import ConversationUndo
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.graph_turn import GraphTurn
from fleetwright_agent.turn.loop import build_loop
from fleetwright_agent.turn.pipeline.composite import ModelLink, ToolRunner
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls
from fleetwright_agent.turn.pipeline.order import model_links, model_of, sub_agent_links
from fleetwright_agent.turn.pipeline.tool.auditing import ToolAudit
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy
from fleetwright_agent.turn.pipeline.tool.ingest import FactIngest
from fleetwright_agent.turn.pipeline.tool.skill_fence import SkillFence
from fleetwright_agent.turn.pipeline.tool.tool_calls import ToolCalls
from fleetwright_agent.turn.pipeline.tracing import ToolTracing
from fleetwright_agent.turn.providers.factory import Chat, build_chat
from fleetwright_agent.turn.providers.model_transport import ModelTransport
from fleetwright_agent.turn.sub_agents.learning import SkillLearner
from fleetwright_agent.turn.sub_agents.listener import TaskListener
from fleetwright_agent.turn.sub_agents.runner import SubAgentLoop, SubAgentRun
from fleetwright_agent.turn.sub_agents.tools import DelegationTools
from fleetwright_agent.turn.views import Views
from fleetwright_agent.turn.workspace import build_workspace


def build_turn(dependencies: TurnDependencies, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> Turn:
    """Open the HTTP clients, without sending anything. The caller closes the conversations and the audit trail.

    Args: `sleep` waits before a model call is retried.
    """
    config, layout, metrics = dependencies.config, dependencies.layout, dependencies.metrics
    redact = redactor(layout).text
    storage = dependencies.storage
    saver, views = storage.checkpoints(), Views(storage.views())
    clients = [
        httpx2.AsyncClient(transport=ModelTransport(endpoint, layout))
        for endpoint in (config.model, *config.model.fallbacks)
    ]
    chats = [
        build_chat(endpoint, layout, client)
        for endpoint, client in zip((config.model, *config.model.fallbacks), clients, strict=True)
    ]
    gateway = [config.gateway.url] if config.gateway else []
    key = DPoPKey(dependencies.clock.now)
    auth = DPoPAuth(key, opaque=partial(opaque_token, config.peers, layout)) if config.gateway else None
    peers_client = peer_client([*(peer.url for peer in config.peers), *gateway], denied=config.denied_ranges, auth=auth)
    direct = None if auth is None else _direct(dependencies, peers_client, key, auth)
    peers, fleet = _peers(dependencies, peers_client, direct), _fleet(dependencies, peers_client)
    dependencies.plugins.load()
    enforcement = EnforcementPolicy(config.enforcement, dependencies.storage.call_windows)
    auditor = ToolAudit(dependencies.audit_trail, config.audit.mode)
    fence = SkillFence(skill_reader(config.skills, layout), mounted=[skill.name for skill in config.skills])
    calls = ModelCalls(
        config.model, metrics, accounting=dependencies.cost_accounting, sleep=sleep, tracing=dependencies.tracing
    )
    grants = Grants(dependencies.storage.grants)
    tools = ToolCalls(
        config.limits,
        metrics,
        storage.journal,
        enforcement=enforcement,
        decisions=CallDecisions(config, grants),
        fence=fence,
        auditor=auditor,
    )
    workspace = build_workspace(dependencies)
    runner = ToolTracing(_ingesting(tools, dependencies, redact), dependencies.tracing)
    learning = SkillLearner(dependencies.storage.skills, config.memory.skills, redact=redact, metrics=metrics)
    listeners = [learning] if config.learns else []
    links = partial(sub_agent_links, dependencies, views=views, calls=calls, overview=workspace.overview)
    work = _work(dependencies, saver, clients[0], links=links, runner=runner, fallbacks=chats[1:], listeners=listeners)
    return GraphTurn(
        config,
        chat=chats[0],
        links=model_links(dependencies, views=views, calls=calls, chats=chats, overview=workspace.overview),
        runner=runner,
        storage=storage,
        saver=saver,
        sessions=Sessions(storage.sessions, redact=redact, lost=metrics.sessions_lost.inc),
        registry=ToolRegistry(
            (
                *built_in_providers(
                    config,
                    layout,
                    facts=dependencies.storage.facts,
                    workspace=workspace.tools,
                    redact=redact,
                    peers=peers,
                    tool_cache=dependencies.tool_cache,
                    metrics=metrics,
                    room=lambda: room(config.model),
                ),
                *fleet,
                *([ArchiveTools(views)] if config.compaction.archive.recall_tool else []),
                *([DelegationTools(work)] if config.sub_agents else []),
                *([dependencies.plugins] if config.plugins else []),
            ),
            policy=lambda tools: governed_tools(tools, config, denies=enforcement.denies),
        ),
        grants=grants,
        unknown=auditor.unknown,
        closing=(*clients, peers_client),
        over=_over(peers, fleet),
        learned=learning.learned if config.learns else None,
        edits=tools.edit_problem,
        background=fleet[0].background if fleet else None,
        views=views if config.forks else None,
        undo=partial(ConversationUndo, files=workspace.undo, audit=auditor) if workspace.undo else None,
    )


def _ingesting(tools: ToolRunner, dependencies: TurnDependencies, redact: Callable[[str], str]) -> ToolRunner:
    policy = dependencies.config.memory.knowledge
    if not (policy.enabled and policy.ingest):
        return tools
    return FactIngest(tools, dependencies.storage.facts, policy, redact=redact, metrics=dependencies.metrics)


def _direct(
    dependencies: TurnDependencies, client: httpx.AsyncClient, key: DPoPKey, auth: DPoPAuth
) -> DirectCalls | None:
    config, layout, now = dependencies.config, dependencies.layout, dependencies.clock.now
    if config.gateway is None or not config.peers:
        return None
    read_token = partial(read_gateway_token, layout)
    exchange = TokenExchange(config.gateway.url, client, key, read_token=read_token, now=now)
    return DirectCalls(exchange, auth, dependencies.delegations, now=now)


def _peers(dependencies: TurnDependencies, client: httpx.AsyncClient, direct: DirectCalls | None) -> PeerTools:
    config = dependencies.config
    me, kept = f"{config.namespace}/{config.name}", dependencies.storage.questions
    return PeerTools(
        me,
        config.peers,
        dependencies.layout,
        client,
        kept,
        is_alone=config.gateway is None,
        outlived=not config.ephemeral_memory,
        direct=direct,
    )


def _over(peers: PeerTools, fleet: Sequence[FleetTools]) -> Callable[[str, str], None]:
    """Return a function that ends the open questions of a task with all other agents."""

    def over(owner: str, task_id: str) -> None:
        peers.over(owner, task_id)
        for each in fleet:
            each.over(owner, task_id)

    return over


def _fleet(dependencies: TurnDependencies, client: httpx.AsyncClient) -> tuple[FleetTools, ...]:
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
        now=dependencies.clock.now,
        declared=[f"{peer.namespace}/{peer.name}" for peer in config.peers],
        outlived=not config.ephemeral_memory,
    )
    return (tools,)


def _work(
    dependencies: TurnDependencies,
    saver: ConversationSaver,
    client: httpx2.AsyncClient,
    *,
    links: Callable[..., tuple[ModelLink, ...]],
    runner: ToolTracing,
    fallbacks: Sequence[Chat],
    listeners: Sequence[TaskListener],
) -> SubAgentRun:
    """Compile a graph for each sub-agent.

    Args: `client` is the HTTP client of the agent's own model. `links` returns the model links of a sub-agent.
    """

    def worker(sub_agent: SubAgent) -> SubAgentLoop:
        model = model_of(sub_agent, dependencies.config.model)
        chats = [build_chat(model, dependencies.layout, client), *fallbacks]
        return SubAgentLoop(
            sub_agent, build_loop(chats[0], links=links(sub_agent, chats=chats), runner=runner, saver=saver)
        )

    workers = [worker(sub_agent) for sub_agent in dependencies.config.sub_agents]
    return SubAgentRun(workers, journal=dependencies.storage.journal, metrics=dependencies.metrics, listeners=listeners)
