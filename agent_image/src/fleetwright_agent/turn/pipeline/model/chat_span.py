"""The span of one attempt of a model call. It never contains message text."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from langchain_core.messages import AIMessage

from fleetwright_agent.telemetry.tracing import Tracing, Value
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.providers.failures import classify

if TYPE_CHECKING:
    from fleetwright_agent.turn.providers.factory import Chat

T = TypeVar("T")


async def chat_span(
    call: Callable[[], Awaitable[T]],
    tracing: Tracing,
    chat: "Chat",
    context: TurnContext,
    *,
    answer: Callable[[T], AIMessage | None],
) -> T:
    """Run the call in a span. Args: `answer` extracts the model's message from the result."""
    model = chat.endpoint.name
    compacted = context.standing is not None and context.standing.view is not None
    about: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": chat.endpoint.provider.lower(),
        "gen_ai.request.model": model,
        **({"gen_ai.conversation.compacted": True} if compacted else {}),
    }
    with tracing.span(f"chat {model}", about, calls=True) as span:
        try:
            reply = await call()
        except Exception as error:
            failure = classify(error)
            span.fail(failure.reason if failure else type(error).__name__)
            raise
        if (said := answer(reply)) is not None and (used := said.usage_metadata):
            span.tell(
                {
                    "gen_ai.usage.input_tokens": used["input_tokens"],
                    "gen_ai.usage.output_tokens": used["output_tokens"],
                }
            )
        return reply
