"""The links that every call of a model passes, outermost first: the one place that knows their order.

The seed systems' order is prompt cache, enforcement, knowledge, tool deferral, audit, memory, knowledge ingest,
compaction, model fallback, message capture. Ours keeps it where a link is one of the model's calls:

- what adds to the prompt (equipment) stands outside compaction, which measures it;
- what is remembered stands inside compaction: it is looked up for each turn, and no part of the conversation;
- what mends or repeats a call stands inside compaction, so that nothing it adds is taken for the conversation;
- the prompt cache stands inside the fallback, because each provider is told in its own way;
- capture is the innermost: each attempt is heard, counted and charged where it is made.

Enforcement and audit are around calls of tools, in `middleware/tool_calls.py`. Memory is written when the turn has
ended (`turn/graph.py`): a link that wrote it would write what a later failure takes back.
"""

from collections.abc import Iterator, Sequence

from fleetwright_agent.memory.recollections import facts_of, skills_of
from fleetwright_agent.memory.views import Views
from fleetwright_agent.tools.skills import skill_reader
from fleetwright_agent.turn.middleware.compaction import CompactionLink
from fleetwright_agent.turn.middleware.composite import ModelLink
from fleetwright_agent.turn.middleware.empty_replies import EmptyReplies
from fleetwright_agent.turn.middleware.equipment import EquipmentLink
from fleetwright_agent.turn.middleware.limits import LimitsLink
from fleetwright_agent.turn.middleware.mending import Mending
from fleetwright_agent.turn.middleware.model_calls import ModelCalls
from fleetwright_agent.turn.middleware.model_fallback import ModelFallback
from fleetwright_agent.turn.middleware.prompt_cache import PromptCache
from fleetwright_agent.turn.middleware.recollection import Recollect, RecollectionLink
from fleetwright_agent.turn.middleware.traced import TracedModel
from fleetwright_agent.turn.middleware.typed_result import TypedResultLink
from fleetwright_agent.turn.models import Chat
from fleetwright_agent.turn.supplies import Supplies


def model_links(supplies: Supplies, *, views: Views, calls: ModelCalls, chats: Sequence[Chat]) -> tuple[ModelLink, ...]:
    """Args: `chats` are the agent's own model and its fallbacks, in that order."""
    config, layout, metrics = supplies.config, supplies.layout, supplies.metrics
    compaction = CompactionLink(
        config.compaction,
        config.model,
        metrics,
        views=views,
        calls=calls,
        read_skill=skill_reader(config.skills, layout),
    )
    return (
        EquipmentLink(config, layout),
        compaction,
        *([RecollectionLink(remembered)] if (remembered := tuple(_recollections(supplies))) else []),
        LimitsLink(config.limits, metrics),
        *([TypedResultLink(config.results)] if config.results else []),
        EmptyReplies(metrics),
        Mending(metrics),
        *([ModelFallback(chats, metrics)] if config.model.fallbacks else []),
        *([PromptCache()] if any(chat.endpoint.prompt_cache for chat in chats) else []),
        calls,
        *([TracedModel(supplies.tracing)] if config.telemetry else []),
    )


def _recollections(supplies: Supplies) -> Iterator[Recollect]:
    memory = supplies.config.memory
    if memory.knowledge.enabled:
        yield facts_of(supplies.knowledge, memory.knowledge)
    if memory.skills.enabled:
        yield skills_of(supplies.skills, memory.skills, recalled=supplies.metrics.skills_recalled.inc)
