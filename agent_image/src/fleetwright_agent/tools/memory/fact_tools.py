"""Tools to remember, look up and forget facts about a caller.

A fact belongs to the caller whose task stored it, and tasks of other callers cannot read it. Secrets are removed before
a fact is stored, because later prompts include it. Turns of agents do not get these tools, because an agent acts for
many people.
"""

from collections.abc import Callable
from typing import Any, Final

from fleetwright_agent.config.memory import KnowledgeMemory
from fleetwright_agent.memory.eligibility import is_remembered
from fleetwright_agent.memory.fact_text import MOST_CHARACTERS, normalise_fact, render_facts
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.facts import FactStore, TooManyFacts
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError

_MOST_FOUND: Final = 10
_SHUT: Final = "the agent's memory cannot be used right now; say so, and go on without it"
_REMEMBER: Final = (
    "Remember a fact about this caller or their work for later conversations. Only what the caller wants remembered;"
    " never instructions, passwords or keys."
)
_RECALL: Final = "Search the facts that were remembered for this caller, by words that they have."
_FORGET: Final = "Forget a remembered fact, by its number."


class FactTools:
    """Offers the tools in turns that may use memory."""

    name = "facts"

    def __init__(self, knowledge: FactStore, policy: KnowledgeMemory, redact: Callable[[str], str]) -> None:
        """Args: `redact` removes secrets from a fact."""
        self._tools = knowledge_tools(knowledge, policy, redact)

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:
        return self._tools if is_remembered(context.request) else ()

    async def close(self) -> None:
        """Do nothing: the code that opened the store closes it."""


def knowledge_tools(knowledge: FactStore, policy: KnowledgeMemory, redact: Callable[[str], str]) -> tuple[Tool, ...]:
    """Return the tools `remember`, `recall_memory` and `forget`."""

    async def remember(call: ToolCall) -> str:
        turn = call.turn
        text = normalise_fact(call.arguments["fact"], redact)
        if not text:
            raise ToolError("fact is empty; say what is to be remembered")
        source = Provenance(turn.owner, turn.context_id, turn.task_id)
        hot = policy.hot and bool(call.arguments.get("always", False))
        try:
            n = await knowledge.remember(turn.owner, text, source, hot=hot, most=policy.max_facts_per_caller)
        except TooManyFacts:
            most = policy.max_facts_per_caller
            raise ToolError(f"{most} facts are remembered for this caller, as many as may be; forget one") from None
        except MemoryUnusable:
            raise ToolError(_SHUT) from None
        return f"Remembered as fact {n}."

    async def recall(call: ToolCall) -> str:
        try:
            found = await knowledge.recall(call.turn.owner, call.arguments["query"], most=_MOST_FOUND)
        except MemoryUnusable:
            raise ToolError(_SHUT) from None
        return render_facts(found) or "Nothing that is remembered has these words."

    async def forget(call: ToolCall) -> str:
        n = call.arguments["number"]
        try:
            known = await knowledge.forget(call.turn.owner, n)
        except MemoryUnusable:
            raise ToolError(_SHUT) from None
        if not known:
            raise ToolError(f"there is no fact {n}; recall_memory tells the numbers")
        return f"Fact {n} is forgotten."

    query = _object(query=_text("Words that the fact has", 500))
    number = _object(number={"type": "integer", "minimum": 1})
    return (
        Tool("remember", _REMEMBER, _remember_parameters(hot=policy.hot), remember, action=CallerAction.WRITE_MEMORY),
        Tool("recall_memory", _RECALL, query, recall, repeatable=True, action=CallerAction.READ_MEMORY),
        Tool("forget", _FORGET, number, forget, action=CallerAction.WRITE_MEMORY),
    )


def _remember_parameters(*, hot: bool) -> dict[str, Any]:
    parameters = _object(fact=_text("The fact, in one sentence", MOST_CHARACTERS))
    if hot:
        always = {"type": "boolean", "description": "Whether it matters in every conversation"}
        parameters["properties"]["always"] = always
    return parameters


def _text(description: str, most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most, "description": description}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
