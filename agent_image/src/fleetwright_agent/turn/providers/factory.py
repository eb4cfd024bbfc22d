"""The interface to chat models. Only this module chooses a provider's client.

This module reads no environment variables. The API key is read before each call, so key rotation needs no restart.
"""

import importlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, Self, cast

import httpx2
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import Runnable

from fleetwright_a2a.lazy_import import fast_imports
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Endpoint, OtherModel, Provider
from fleetwright_agent.turn.providers.failures import MissingKey

_CONNECT_SECONDS: Final = 10.0
_CLIENTS: Final = {Provider.OPENAI: "openai", Provider.ANTHROPIC: "anthropic", Provider.GOOGLE: "google"}


class Chat(Protocol):
    """A LangChain chat model that streams to callbacks, reports usage, and never returns a partial tool call."""

    endpoint: Endpoint

    def heard(self, said: Callable[[str], None], thought: Callable[[str], None]) -> Self: ...

    def other(self, model: OtherModel) -> Self:
        """Return another model at the same address."""
        ...

    def cap(self, tokens: int) -> dict[str, Any]:
        """The call arguments that limit the length of a reply."""
        ...

    def cached(self, key: str) -> dict[str, Any]:
        """The call arguments that let the provider cache the prompts of one conversation."""
        ...

    def ends_cache(self, message: AnyMessage) -> AnyMessage | None:
        """Return the message with a cache breakpoint, which tells the provider that later prompts share this prefix.

        Return None if the provider caches automatically, or if the message cannot carry a breakpoint.
        """
        ...

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]: ...


def build_chat(endpoint: Endpoint, layout: Layout, client: httpx2.AsyncClient) -> Chat:
    """Create the client of one declared model, without sending anything."""
    connect = min(_CONNECT_SECONDS, endpoint.timeout_seconds)
    timeout = httpx2.Timeout(endpoint.timeout_seconds, connect=connect)
    # Import only the needed provider: each client costs memory, and most agents use one.
    with fast_imports():
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
    """Keep only text and tool calls of other providers' answers, because other content is provider-specific."""
    return [
        message.model_copy(update={"content": message.text})
        if isinstance(message, AIMessage) and isinstance(message.content, list) and _of(message) != provider.value
        else message
        for message in messages
    ]


def _of(message: AIMessage) -> str:
    """The provider of a message, from LangChain's names: `openai`, `anthropic`, `google_genai`."""
    said = str(message.response_metadata.get("model_provider", ""))
    return next((each.value for each in Provider if said.startswith(each.value.lower())), "")
