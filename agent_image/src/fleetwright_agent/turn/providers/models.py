"""The port to models, whoever provides them, and the one place that chooses a provider's client.

Refuses: reading anything of the environment. A key is read before every call, so its rotation needs no restart.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, Self, cast

import httpx2
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Endpoint, OtherModel, Provider
from fleetwright_agent.turn.providers.failures import MissingKey

_CONNECT_SECONDS: Final = 10.0
_CLIENTS: Final = {Provider.OPENAI: "openai", Provider.ANTHROPIC: "anthropic", Provider.GOOGLE: "google"}


class Chat(Protocol):
    """A LangChain chat model that counts, is heard while it speaks, and never runs half a tool call."""

    endpoint: Endpoint

    def heard(self, said: Callable[[str], None], thought: Callable[[str], None]) -> Self: ...

    def other(self, model: OtherModel) -> Self:
        """Another model at the same address."""
        ...

    def cap(self, tokens: int) -> dict[str, Any]:
        """What bounds a reply, as arguments of a call."""
        ...

    def cached(self, key: str) -> dict[str, Any]:
        """What lets the provider keep the prompts of one conversation, as arguments of a call."""
        ...

    def ends_cache(self, message: AnyMessage) -> AnyMessage | None:
        """The message with a mark that says: up to here a later prompt is the same. None where the provider finds out
        by itself, or the message can have no mark.
        """
        ...

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]: ...


def build_chat(endpoint: Endpoint, layout: Layout, client: httpx2.AsyncClient) -> Chat:
    """A client for one declared model; nothing is sent yet."""
    connect = min(_CONNECT_SECONDS, endpoint.timeout_seconds)
    timeout = httpx2.Timeout(endpoint.timeout_seconds, connect=connect)
    # Most agents speak to one provider: what the others import would be memory for nothing.
    provider = importlib.import_module(f"fleetwright_agent.turn.providers.{_CLIENTS[endpoint.provider]}")
    return cast("Chat", provider.build(endpoint, client, _key(endpoint, layout), timeout))


def _key(endpoint: Endpoint, layout: Layout) -> Callable[[], Awaitable[str]] | None:
    file = endpoint.api_key_file
    if file is None:
        return None

    async def key() -> str:
        try:
            return layout.secret(file).read_text().strip()
        except OSError as error:
            raise MissingKey("the key file cannot be read") from error

    return key


def portable(messages: Sequence[AnyMessage], provider: Provider) -> list[AnyMessage]:
    """What another provider's model said is passed on as its words and calls: the rest is of its own wire."""
    return [
        message.model_copy(update={"content": message.text})
        if isinstance(message, AIMessage) and isinstance(message.content, list) and _of(message) != provider.value
        else message
        for message in messages
    ]


def _of(message: AIMessage) -> str:
    """LangChain's names for them: `openai`, `anthropic`, `google_genai`."""
    said = str(message.response_metadata.get("model_provider", ""))
    return next((each.value for each in Provider if said.startswith(each.value.lower())), "")
