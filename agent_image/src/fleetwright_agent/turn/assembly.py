"""Builds the turn of one agent from its configuration. Only this module chooses the implementations."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import httpx2

from fleetwright_agent.audit.factory import redactor
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.protocol.turn import Turn
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.tools.approval_policy import governed_tools
from fleetwright_agent.tools.registry import ToolRegistry, built_in_providers
from fleetwright_agent.tools.skills.loading import skill_reader
from fleetwright_agent.turn.compaction.policy import room
from fleetwright_agent.turn.compaction.recall import ArchiveTools
from fleetwright_agent.turn.conversation_undo import ConversationUndo, FileUndo
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.graph_turn import GraphTurn
from fleetwright_agent.turn.loop import build_loop
from fleetwright_agent.turn.message_models import build_message_models
from fleetwright_agent.turn.other_agents import other_agents
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

    Args: `sleep` waits before a call of a model or a peer is retried.
    """
    build_message_models()
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
    others = other_agents(dependencies, redact=redact, sleep=sleep)
    dependencies.plugins.load()
    enforcement = EnforcementPolicy(config.enforcement, dependencies.storage.call_windows)
    auditor = ToolAudit(dependencies.audit_trail, config.audit.mode)
    fence = SkillFence(skill_reader(config.skills, layout), mounted=[skill.name for skill in config.skills])
    calls = ModelCalls(
        config.model,
        metrics,
        accounting=dependencies.cost_accounting,
        sleep=sleep,
        tracing=dependencies.tracing,
        estimates=config.limits.max_turn_tokens is not None,
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
    access = MemoryAccess(config.actions_of)
    learning = SkillLearner(
        dependencies.storage.skills, config.memory.skills, access=access, redact=redact, metrics=metrics
    )
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
                    peers=others.peers,
                    tool_cache=dependencies.tool_cache,
                    metrics=metrics,
                    room=lambda: room(config.model),
                ),
                *others.fleet,
                *([ArchiveTools(views)] if config.compaction.archive.recall_tool else []),
                *([DelegationTools(work)] if config.sub_agents else []),
                *([dependencies.plugins] if config.plugins else []),
            ),
            policy=lambda tools: governed_tools(tools, config, denies=enforcement.denies),
        ),
        grants=grants,
        unknown=auditor.unknown,
        closing=(*clients, *others.closing),
        over=others.over,
        learned=learning.learned if config.learns else None,
        edits=tools.edit_problem,
        background=others.background,
        views=views if config.forks else None,
        undo=_undo(config, workspace.undo, auditor) if workspace.undo else None,
    )


def _undo(config: AgentConfig, files: FileUndo, auditor: ToolAudit) -> Callable[[Any], ConversationUndo]:
    return partial(ConversationUndo, files=files, audit=auditor, actions_of=config.actions_of)


def _ingesting(tools: ToolRunner, dependencies: TurnDependencies, redact: Callable[[str], str]) -> ToolRunner:
    policy = dependencies.config.memory.knowledge
    if not (policy.enabled and policy.ingest):
        return tools
    access, metrics = MemoryAccess(dependencies.config.actions_of), dependencies.metrics
    return FactIngest(tools, dependencies.storage.facts, policy, access=access, redact=redact, metrics=metrics)


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
