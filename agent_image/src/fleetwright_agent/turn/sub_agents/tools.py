"""The tools by which a turn delegates to its sub-agents: one task, or several concurrently.

Each task succeeds or fails independently, and results are in the order of the tasks. Sub-agents have neither tool.
A call whose sub-agent asks a person interrupts the turn after all sub-agents of the call have stopped.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError
from fleetwright_agent.turn.sub_agents.questions import SubAgentQuestion
from fleetwright_agent.turn.sub_agents.runner import SubAgentRun

_MOST_CHARACTERS: Final = 6000
_MOST_AT_ONCE: Final = 4
_MOST_TASKS: Final = 8
_TASK: Final = (
    "Give a task to a sub-agent and wait for its answer. It knows nothing of this conversation: say all it needs."
)
_TASKS: Final = "Give several tasks to sub-agents that work side by side, and wait for all of their answers."


class DelegationTools:
    name = "sub-agents"

    def __init__(self, work: SubAgentRun) -> None:
        self._work = work

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:
        """The tools `task` and `task_batch` for one turn."""
        room = asyncio.Semaphore(_MOST_AT_ONCE)

        async def one(order: dict[str, str], place: str, call: ToolCall) -> str | SubAgentQuestion:
            async with room:
                text = await self._work.answer(order["agent"], order["task"], place=place, call=call, context=context)
            return text if isinstance(text, SubAgentQuestion) else _cut(text)

        async def task(call: ToolCall) -> str:
            answer = await one(dict(call.arguments), call.key, call)
            if isinstance(answer, SubAgentQuestion):
                raise answer.graph_interrupt()
            return answer

        async def batch(call: ToolCall) -> str:
            orders: list[dict[str, str]] = call.arguments["tasks"]

            async def isolated(number: int, order: dict[str, str]) -> str | SubAgentQuestion:
                head = f"# Task {number}, {order['agent']}\n"
                try:
                    answer = await one(order, f"{call.key}/{number}", call)
                except ToolError as error:
                    return f"{head}Error: {error}"
                return answer if isinstance(answer, SubAgentQuestion) else head + answer

            async with asyncio.TaskGroup() as group:
                running = [group.create_task(isolated(n, order)) for n, order in enumerate(orders, 1)]
            texts: list[str] = []
            for each in running:
                answer = each.result()
                if isinstance(answer, SubAgentQuestion):
                    # The other tasks have ended or wait too. A person answers one question after the other.
                    raise answer.graph_interrupt()
                texts.append(answer)
            return "\n\n".join(texts)

        # Each turn has its own tools, because the limit on concurrent tasks applies to one turn.
        order = _order(self._work.sub_agents)
        many = {"type": "array", "items": order, "minItems": 1, "maxItems": _MOST_TASKS}
        listed = "\n".join(f"- {each.name}: {each.description}" for each in self._work.sub_agents)
        # Repeatable: `SubAgentRun` stores the progress of a task itself.
        return (
            Tool("task", f"{_TASK} Sub-agents:\n{listed}", order, task, repeatable=True),
            Tool("task_batch", f"{_TASKS} As many as {_MOST_TASKS}.", _object(tasks=many), batch, repeatable=True),
        )

    async def close(self) -> None:
        """Do nothing: sub-agents use the connections of the turn."""


def _order(sub_agents: Sequence[SubAgent]) -> dict[str, Any]:
    agent = {"type": "string", "enum": [each.name for each in sub_agents], "description": "Name of the sub-agent"}
    task = {"type": "string", "minLength": 1, "maxLength": 20_000, "description": "The whole task"}
    return _object(agent=agent, task=task)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}\n[cut: {len(text)} characters in all]"
