"""The models of an Agent: its own model, its fallbacks, and other models at the same address.

A fallback with a separate `baseURL` does not inherit the key and the other settings that belong to the address of the
agent's model. A key is therefore sent only to the address for which it was declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleetwright_api.spec.fields import checked, one_of
from fleetwright_api.spec.references import ApiKeyReference, AuthorityReference, HeaderSource

PROVIDERS: Final = ("OpenAI", "Anthropic", "Google")
_ALWAYS_INHERITED: Final = ("temperature", "timeout", "retries")
_INHERITED_WITH_ADDRESS: Final = (
    "provider",
    "base_url",
    "api_key_secret_ref",
    "headers_from",
    "ca_secret_ref",
    "proxy_url",
    "prompt_cache",
    "extra_body",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSpec:
    """US dollars per million tokens, as decimal texts."""

    input_per_million: str
    output_per_million: str
    cached_input_per_million: str | None = None
    cache_write_per_million: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModelSpec:
    """A model at the address of the agent's own model. Unset values come from the operator's model catalog."""

    name: str
    context_window: int | None = None
    price: PriceSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpointSpec(NamedModelSpec):
    """A model and its address. A fallback inherits unset fields from the agent's own model.

    `extra_body` stays a mapping, because the provider defines its fields.
    """

    name: str = checked("")
    provider: str | None = one_of(*PROVIDERS, default=None)
    base_url: str | None = None
    api_key_secret_ref: ApiKeyReference | None = None
    headers_from: tuple[HeaderSource, ...] | None = None
    ca_secret_ref: AuthorityReference | None = None
    proxy_url: str | None = None
    max_output_tokens: int | None = None
    temperature: str | None = None
    extra_body: Mapping[str, Any] | None = None
    timeout: str | None = None
    retries: int | None = None
    prompt_cache: bool | None = None
    vision: bool = False
    reasoning_effort: str | None = one_of("low", "medium", "high", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec(ModelEndpointSpec):
    """The agent's own model, with its fallbacks and the model for summaries."""

    fallbacks: tuple[ModelEndpointSpec, ...] = ()
    auxiliary: NamedModelSpec | None = None
    complete_fallbacks: tuple[ModelEndpointSpec, ...] = field(default=(), init=False, repr=False, compare=False)
    """The fallbacks, with the fields that they inherit from this model. The CRD does not have this field."""

    def __post_init__(self) -> None:
        complete = tuple(_complete(fallback, self) for fallback in self.fallbacks)
        object.__setattr__(self, "complete_fallbacks", complete)


def _complete(fallback: ModelEndpointSpec, own: ModelEndpointSpec) -> ModelEndpointSpec:
    elsewhere = fallback.base_url is not None
    inherited = _ALWAYS_INHERITED if elsewhere else (*_ALWAYS_INHERITED, *_INHERITED_WITH_ADDRESS)
    return replace(fallback, **{name: getattr(own, name) for name in inherited if getattr(fallback, name) is None})
