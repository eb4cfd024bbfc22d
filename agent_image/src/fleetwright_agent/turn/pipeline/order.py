"""Builds the middleware chain of model calls, outermost link first. Only this module knows the order.

These rules determine the order of the links that wrap model calls:

- The system prompt link adds to the prompt, so it is outside compaction, which measures the prompt. Tool deferral is
  outside the system prompt link, because it decides which tools that link declares.
- Recollection is inside compaction: remembered facts are looked up for each turn and are not part of the conversation.
- The overview of the workspace is inside compaction for the same reason, and outside recollection, which is at the end.
- Links that repair or repeat a call are inside compaction, so that their additions do not enter the conversation.
- Prompt cache and reasoning effort are inside the fallback, because their settings depend on the model.
- The limit of tokens is in the chain twice: outermost, so that no summary is made for a turn that ends, and directly
  outside `ModelCalls`, so that it also limits repeated calls.
- `ModelCalls` is inside these links, so that each attempt is streamed, counted and charged. Only tracing is further
  inside, so that each attempt is a span.

The configuration can remove every link except four. The system prompt link supplies the prompt and the tools of every
call. The call limit is the only bound on a model that never finishes. Without `ModelCalls`, calls would count against
no budget. Compaction stays in the chain even with the mode `Off`, because it shows views from earlier revisions.

Enforcement and audit wrap tool calls (`ToolCalls`). Knowledge ingest (`FactIngest`) wraps `ToolCalls`, because it
stores tool results. `GraphTurn` writes memory after the turn: a link would also write memory of a turn that later
fails.
"""

from collections.abc import Iterator, Sequence

from fleetwright_agent.config.model import Model
from fleetwright_agent.config.server import CallerChoice, Limits
from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.config.workspace import WorkspaceTool
from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.memory.retrieval import facts_of, skills_of
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.skills.loading import skill_reader
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.pipeline.composite import ModelLink
from fleetwright_agent.turn.pipeline.model.compaction.link import CompactionLink
from fleetwright_agent.turn.pipeline.model.empty_replies import EmptyReplies
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls
from fleetwright_agent.turn.pipeline.model.model_fallback import ModelFallback, VisionFilter
from fleetwright_agent.turn.pipeline.model.prompt_cache import PromptCache
from fleetwright_agent.turn.pipeline.model.prompt_retry import PromptRetry
from fleetwright_agent.turn.pipeline.model.reasoning_effort import ReasoningEffort
from fleetwright_agent.turn.pipeline.model.recollection import Recollect, RecollectionLink
from fleetwright_agent.turn.pipeline.model.system_prompt import SystemPromptLink
from fleetwright_agent.turn.pipeline.model.tool_deferral import DeferralLink
from fleetwright_agent.turn.pipeline.model.turn_limits import RepeatLimitLink, RoundLimitLink, TokenLimitLink
from fleetwright_agent.turn.pipeline.model.typed_result import TypedResultLink
from fleetwright_agent.turn.pipeline.model.workspace_context import Overview, WorkspaceContextLink
from fleetwright_agent.turn.pipeline.tracing import ModelTracing
from fleetwright_agent.turn.prompt import read_instructions, sub_agent_prompt, system_prompt
from fleetwright_agent.turn.providers.factory import Chat
from fleetwright_agent.turn.views import Views


def model_links(
    dependencies: TurnDependencies,
    *,
    views: Views,
    calls: ModelCalls,
    chats: Sequence[Chat],
    overview: Overview | None = None,
) -> tuple[ModelLink, ...]:
    """Args:
    chats: The agent's own model and its fallbacks, in order.
    overview: Describes the workspace; None without a workspace.
    """
    config, layout = dependencies.config, dependencies.layout
    access = MemoryAccess(config.actions_of)

    def prompt(context: TurnContext) -> str:
        allowed = config.actions_of(context.request.owner)
        return system_prompt(config, read_instructions(config, layout), context.unreachable, allowed)

    return (
        *_token_limit(config.limits),
        *([DeferralLink(config.tool_search, dependencies.metrics)] if config.tool_search else []),
        SystemPromptLink(prompt),
        _compaction(dependencies, config.model, views=views, calls=calls),
        *([WorkspaceContextLink(overview)] if overview else []),
        *([RecollectionLink(found, access)] if (found := tuple(_recollections(dependencies))) else []),
        *_guards(config.limits, dependencies.metrics),
        *([TypedResultLink(config.results)] if config.results else []),
        *_innermost(dependencies, calls=calls, chats=chats),
    )


def sub_agent_links(
    dependencies: TurnDependencies,
    sub_agent: SubAgent,
    *,
    views: Views,
    calls: ModelCalls,
    chats: Sequence[Chat],
    overview: Overview | None = None,
) -> tuple[ModelLink, ...]:
    """Return the chain of a sub-agent. It has no links for remembered facts and for answers as data.

    Args: `chats` begin with the model of the sub-agent.
    """
    actions_of = dependencies.config.actions_of

    def prompt(context: TurnContext) -> str:
        return sub_agent_prompt(sub_agent.instructions, context.unreachable, actions_of(context.request.owner))

    sees_workspace = not {*WorkspaceTool}.isdisjoint(sub_agent.tools)
    limits = dependencies.config.limits.model_copy(update={"max_model_calls": sub_agent.max_model_calls})
    return (
        *_token_limit(limits),
        SystemPromptLink(prompt),
        _compaction(dependencies, model_of(sub_agent, dependencies.config.model), views=views, calls=calls),
        *([WorkspaceContextLink(overview)] if overview and sees_workspace else []),
        *_guards(limits, dependencies.metrics),
        *_innermost(dependencies, calls=calls, chats=chats),
    )


def model_of(sub_agent: SubAgent, own: Model) -> Model:
    """Return the sub-agent's model, which has the same base URL as the agent's model."""
    return own.model_copy(update=dict(sub_agent.model)) if sub_agent.model else own


def _compaction(dependencies: TurnDependencies, model: Model, *, views: Views, calls: ModelCalls) -> CompactionLink:
    config = dependencies.config
    read_skill = skill_reader(config.skills, dependencies.layout)
    return CompactionLink(
        config.compaction,
        model,
        dependencies.metrics,
        views=views,
        calls=calls,
        read_skill=read_skill,
        reads_memory=MemoryAccess(config.actions_of).allows_reading,
    )


def _guards(limits: Limits, metrics: Metrics) -> tuple[ModelLink, ...]:
    repeats = limits.max_repeated_calls
    return (RoundLimitLink(limits.most_model_calls), *([RepeatLimitLink(repeats, metrics)] if repeats else []))


def _token_limit(limits: Limits) -> tuple[ModelLink, ...]:
    return (TokenLimitLink(limits.max_turn_tokens),) if limits.max_turn_tokens is not None else ()


def _innermost(dependencies: TurnDependencies, *, calls: ModelCalls, chats: Sequence[Chat]) -> tuple[ModelLink, ...]:
    metrics, choices, limits = dependencies.metrics, dependencies.config.caller_choices, dependencies.config.limits
    thinks = CallerChoice.REASONING_EFFORT in choices
    return (
        *([EmptyReplies(limits.max_empty_replies, metrics)] if limits.max_empty_replies else []),
        *([PromptRetry(limits.max_mended_requests, metrics)] if limits.max_mended_requests else []),
        *([ModelFallback(chats, metrics, chosen=CallerChoice.MODEL in choices)] if len(chats) > 1 else []),
        *([ReasoningEffort(chosen=thinks)] if thinks or any(chat.endpoint.reasoning_effort for chat in chats) else []),
        # A conversation that began with a vision model may continue with a model without vision.
        *([VisionFilter()] if not all(chat.endpoint.vision for chat in chats) else []),
        *([PromptCache()] if any(chat.endpoint.prompt_cache for chat in chats) else []),
        *_token_limit(limits),
        calls,
        *([ModelTracing(dependencies.tracing)] if dependencies.config.telemetry else []),
    )


def _recollections(dependencies: TurnDependencies) -> Iterator[Recollect]:
    memory = dependencies.config.memory
    if memory.knowledge.enabled:
        yield facts_of(dependencies.storage.facts, memory.knowledge)
    if memory.skills.enabled:
        yield skills_of(dependencies.storage.skills, memory.skills, recalled=dependencies.metrics.skills_recalled.inc)
