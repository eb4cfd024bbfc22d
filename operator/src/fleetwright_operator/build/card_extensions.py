"""The A2A extensions that an agent's card declares: exactly those that its spec enables.

The card tells clients which extensions they may receive. An extension without a URI cannot be declared. The runtime
derives the same list from its configuration; a contract test compares both.
"""

from fleetwright_api.approval_sources import guards_source, workspace_asks
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_operator.build.config.auth_settings import exposes_model_fallbacks, exposes_tool_calls

_OURS = "https://fleetwright.dev/a2a"
_COST = "https://proto-labs.ai/a2a/ext/cost-v1"
_TOOL_CALL = "https://proto-labs.ai/a2a/ext/tool-call-v1"
_TRUNCATED = {f"{_OURS}/truncated/v1": "Marks an artifact that was cut because it is too large, in its metadata."}
_ALWAYS = {
    _COST: "Tokens and US dollars of a task, in the metadata of its last artifact.",
    f"{_OURS}/call-path/v1": "The agents that a request came through, in its message's metadata; loops are refused.",
    **_TRUNCATED,
}
_OF_THE_EDGE = {
    **_TRUNCATED,
    f"{_OURS}/goes-on/v1": "Marks a task or status in an interrupted state whose work goes on, in its metadata.",
    f"{_OURS}/direct-reply/v1": "Marks the status message of a task that was answered by a message alone.",
}
"""The extensions of an agent with a custom executor. The operator does not know the executor's own extensions."""
_TOLD = {_TOOL_CALL: "Calls of tools while a task works, in the metadata of its status messages."}
_LEARNED = {
    "https://proto-labs.ai/a2a/ext/skill-v1": "A skill that was learned in a task, as an artifact of its own beside the"
    " answer, as data and in the artifact's metadata."
}
_FALLBACKS = {
    f"{_OURS}/model-fallback/v1": "That another model took over, and why, in the metadata of a status message."
}
_CONTEXT = {
    f"{_OURS}/context/v1": "The size of the last prompt, the context window and compactions, in the metadata of status"
    " messages and of the answer's artifact."
}
_FORK = {
    f"{_OURS}/context-fork/v1": "Begins a conversation with the history of another one, in the metadata of its first"
    " message."
}
_TITLE = {
    f"{_OURS}/context-title/v1": "The title of a conversation, in the metadata of a message that sets it and of listed"
    " tasks."
}
_UNDO = {
    f"{_OURS}/workspace-undo/v1": "Undoes the file changes of a task, in the metadata of a message. The metadata of the"
    " answer's artifact names the restored files."
}
_ASKS = {
    f"{_OURS}/ask/v1": "Which ask a task waits with, its kind and end, in the metadata of its status message.",
    f"{_OURS}/answer/v1": "Who answered an ask, when, and what was decided, in the metadata of the answer.",
    f"{_OURS}/agent-inbox/v1": "The same asks as interrupts of Agent Inbox, if a client requests the extension.",
    "https://kagent.dev/extensions/hitl/v1": "The same asks and answers in the format of kagent, if a client requests"
    " the extension.",
}
_CHOSEN = {f"{_OURS}/chosen-id/v1": "Marks a task whose id a client of A2A 0.1 has chosen, in its metadata."}


def declared_extensions(spec: AgentSpec) -> list[dict[str, str]]:
    spoken = spec.a2a.dialects
    declared = {
        **(_OF_THE_EDGE if spec.executor else _of_the_loop(spec)),
        **(_CHOSEN if "0.1" in spoken and len(spoken) > 1 else {}),
    }
    return [{"uri": uri, "description": description} for uri, description in declared.items()]


def _of_the_loop(spec: AgentSpec) -> dict[str, str]:
    return {
        **_ALWAYS,
        **(_TOLD if exposes_tool_calls(spec) else {}),
        **(_LEARNED if learns(spec) else {}),
        **(_CONTEXT if spec.a2a.extensions.context else {}),
        **(_FORK | _TITLE if spec.a2a.extensions.context or spec.workspace else {}),
        **(_UNDO if spec.workspace else {}),
        **(_FALLBACKS if exposes_model_fallbacks(spec) else {}),
        **(_ASKS if may_ask(spec) else {}),
    }


def learns(spec: AgentSpec) -> bool:
    """Return whether the agent may learn a skill from a task."""
    learned = spec.memory.skills
    return bool(spec.sub_agents) and learned is not None and bool(learned.enabled)


def may_ask(spec: AgentSpec) -> bool:
    """Return whether a task may wait for a person's answer."""
    approvals = spec.approvals.tools or any(use.tools.require_approval for use in spec.mcp_servers)
    pauses = any(budget.on_exceeded == "Pause" for budget in spec.budgets)
    return bool(spec.ask_human or approvals or pauses or guards_source(spec) or workspace_asks(spec))
