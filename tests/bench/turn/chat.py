"""A chat model in this process that takes no time, and its tool. It makes one tool call, then answers."""

from collections.abc import Sequence
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult

from fleetwright_agent.tools.port import Tool, ToolCall

QUESTION = "How is order 4711 coming along? I was promised to have it before the end of the week."
_ANSWER = "It is packed, the parcel service fetches it tomorrow at noon, and it is with you by Friday morning." * 2
_STATUS = "order 4711: packed; carrier: booked for tomorrow 12:00; destination: 20 km; weight: 3.2 kg; " * 4
_USED = UsageMetadata(input_tokens=900, output_tokens=40, total_tokens=940)


class Prompt(BaseChatModel):
    """A model that answers at once."""

    endpoint: Any
    said: Any = None
    thought: Any = None

    @property
    def _llm_type(self) -> str:
        return "prompt"

    @property
    def _serialized(self) -> dict[str, Any]:
        """Return the serialised form, as the shipped models do."""
        return {}

    def heard(self, said: Any, thought: Any) -> Self:
        return self.model_copy(update={"said": said, "thought": thought})

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tools=list(tools), tool_choice=tool_choice, **kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages, *args, **kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        if isinstance(messages[-1], ToolMessage):
            if self.said is not None:
                self.said(_ANSWER)
            reply = AIMessage(_ANSWER, usage_metadata=_USED)
        else:
            call = {"name": "order_status", "args": {"order": 4711}, "id": f"call-{len(messages)}", "type": "tool_call"}
            reply = AIMessage("", tool_calls=[call], usage_metadata=_USED)
        return ChatResult(generations=[ChatGeneration(message=reply)])


async def _status(_: ToolCall) -> str:
    return _STATUS


TOOL = Tool(
    name="order_status",
    description="How an order is coming along.",
    parameters={"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
    run=_status,
)
