"""The models that an agent calls, and what they cost."""

from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from pydantic import Field, PrivateAttr

from fleetwright_agent.config.base import Part


class Price(Part):
    """US dollars for a million tokens; cached input falls back to the price of input."""

    input_per_million: Decimal = Field(ge=0)
    output_per_million: Decimal = Field(ge=0)
    cached_input_per_million: Decimal | None = Field(default=None, ge=0)
    cache_write_per_million: Decimal | None = Field(default=None, ge=0)


class Header(Part):
    """An HTTP header whose value lies in a mounted file, read again for every request."""

    name: str = Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
    value_file: str


class Provider(StrEnum):
    """Whose wire format is spoken."""

    OPENAI = "OpenAI"
    """Chat completions, as OpenAI and everybody compatible with it serve them."""
    ANTHROPIC = "Anthropic"
    GOOGLE = "Google"


class Effort(StrEnum):
    """How long a model thinks before it answers."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


EFFORTS: Final = frozenset(each.value for each in Effort)


class Endpoint(Part):
    """One model, where its provider answers."""

    provider: Provider = Provider.OPENAI
    name: str = Field(min_length=1, max_length=253)
    base_url: str = Field(min_length=1, max_length=2048, pattern=r"^[^\x00-\x20\x7f]+$")
    api_key_file: str | None = None
    """Path below the configuration folder, `secrets/<name>/<key>`; read again before every call."""
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """Certificates of authorities that are trusted beside the usual ones; read again when it changes."""
    proxy_url: str | None = Field(default=None, max_length=2048)
    context_window: int = Field(gt=0)
    context_window_assumed: bool = False
    """The window is a guess, because neither the spec nor the catalog describes the model."""
    max_output_tokens: int = Field(gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """What each call says beside what the runtime does; only chat completions have a place for it."""
    timeout_seconds: int = Field(gt=0)
    retries: int = Field(default=2, ge=0, le=10)
    """Of a call that failed with what may pass; 0 tries each once."""
    prompt_cache: bool = False
    """Whether calls say what the provider may cache; some that are only compatible refuse what they do not know."""
    vision: bool = False
    """Whether it sees pictures."""
    reasoning_effort: Effort | None = None
    """Without one nothing is said of it: models that do not think refuse it."""
    price: Price | None = None
    _learned: int | None = PrivateAttr(default=None)
    """The window that the provider named when a prompt was too long, where it is the smaller one."""

    @property
    def window(self) -> int:
        """Tokens of the context window, as far as this process knows it."""
        return self.context_window if self._learned is None else self._learned

    def learn(self, window: int) -> bool:
        """Take over the window that the provider has named; return whether it is smaller than the known one."""
        # Where the answer alone could fill it, a prompt may still have half of it.
        usable = max(window, self.max_output_tokens + window // 2)
        if window <= 0 or usable >= self.window:
            return False
        self._learned = usable
        return True


class OtherModel(Part):
    """Another model at the same address."""

    name: str = Field(min_length=1, max_length=253)
    context_window: int = Field(gt=0)
    price: Price | None = None

    def at(self, endpoint: Endpoint) -> Endpoint:
        """As the model of that address. How long it thinks nobody has said."""
        other = {"name": self.name, "context_window": self.context_window, "price": self.price}
        return endpoint.model_copy(update={**other, "reasoning_effort": None})


class Model(Endpoint):
    """The agent's own model, and those that stand by."""

    fallbacks: tuple[Endpoint, ...] = Field(default=(), max_length=4)
    """In the order in which they take over where it cannot answer."""
    auxiliary: OtherModel | None = None
    """For what is written beside the conversation, such as summaries, where it is cheaper."""
