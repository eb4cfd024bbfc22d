"""The configuration of the models that an agent calls, and their prices."""

from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Self

from pydantic import Field, PrivateAttr, model_validator

from fleetwright_agent.config.base import Part


class Price(Part):
    """US dollars per million tokens. If the price of cached input is unset, the input price applies."""

    input_per_million: Decimal = Field(ge=0)
    output_per_million: Decimal = Field(ge=0)
    cached_input_per_million: Decimal | None = Field(default=None, ge=0)
    cache_write_per_million: Decimal | None = Field(default=None, ge=0)


class Header(Part):
    """An HTTP header whose value is in a mounted file, read again for every request."""

    name: str = Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$")
    value_file: str


class Provider(StrEnum):
    """The wire format of the API."""

    OPENAI = "OpenAI"
    """Chat completions, as OpenAI and compatible servers implement them."""
    ANTHROPIC = "Anthropic"
    GOOGLE = "Google"


class Effort(StrEnum):
    """How long a model reasons before it answers."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


EFFORTS: Final = frozenset(each.value for each in Effort)


class Endpoint(Part):
    """One model at its provider's endpoint."""

    provider: Provider = Provider.OPENAI
    name: str = Field(min_length=1, max_length=253)
    base_url: str = Field(min_length=1, max_length=2048, pattern=r"^[^\x00-\x20\x7f]+$")
    api_key_file: str | None = None
    """Path below the configuration folder, `secrets/<name>/<key>`; read again before every call."""
    headers: tuple[Header, ...] = ()
    ca_file: str | None = None
    """CA certificates that are trusted in addition to the system's certificates. A changed file is read again."""
    proxy_url: str | None = Field(default=None, max_length=2048)
    context_window: int = Field(gt=0)
    context_window_assumed: bool = False
    """True if the context window is a guess, because neither the spec nor the operator's model catalog states it."""
    max_output_tokens: int = Field(gt=0)
    temperature: float | None = Field(default=None, ge=0, le=2)
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields that are added to the body of every call. Only chat completions support them."""
    timeout_seconds: int = Field(gt=0)
    retries: int = Field(default=2, ge=0, le=10)
    """Retries of a call after a transient error; 0 disables retries."""
    prompt_cache: bool = False
    """Calls mark the parts of the prompt that the provider may cache; some compatible servers reject these fields."""
    vision: bool = False
    """The model accepts images."""
    reasoning_effort: Effort | None = None
    """If unset, the field is not sent, because models that do not reason reject it."""
    price: Price | None = None
    _learned: int | None = PrivateAttr(default=None)
    """The usable context window, if the provider rejected a prompt and stated a smaller window than the known one."""

    @model_validator(mode="after")
    def _require_https_behind_proxy(self) -> Self:
        has_credentials = self.api_key_file is not None or self.headers
        if self.proxy_url is not None and has_credentials and not self.base_url.startswith("https://"):
            raise ValueError(
                "baseUrl must be an https address if proxyUrl and credentials are set, because a proxy reads requests "
                "for an http address; use https, or remove proxyUrl"
            )
        return self

    @property
    def window(self) -> int:
        """The context window in tokens: the smaller one that the provider has stated, or else the configured one."""
        return self.context_window if self._learned is None else self._learned

    def learn(self, window: int) -> bool:
        """Adopt the context window that the provider has stated. Return True if it is smaller than the known one."""
        # A prompt may use at least half of the stated window, even if the output limit alone could fill it.
        usable = max(window, self.max_output_tokens + window // 2)
        if window <= 0 or usable >= self.window:
            return False
        self._learned = usable
        return True


class OtherModel(Part):
    """Another model at the same endpoint."""

    name: str = Field(min_length=1, max_length=253)
    context_window: int = Field(gt=0)
    context_window_assumed: bool = False
    """True if the context window is a guess, because neither the spec nor the operator's model catalog states it."""
    price: Price | None = None

    def at(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with this model. The reasoning effort is unset, because it belongs to the original
        model.
        """
        own = {field: getattr(self, field) for field in OtherModel.model_fields}
        return endpoint.model_copy(update={**own, "reasoning_effort": None})


class Model(Endpoint):
    """The agent's own model, and its fallbacks."""

    fallbacks: tuple[Endpoint, ...] = Field(default=(), max_length=4)
    """The models that are tried, in this order, when a model fails."""
    auxiliary: OtherModel | None = None
    """A cheaper model for text outside the conversation, such as summaries."""
