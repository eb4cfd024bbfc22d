"""The model catalog: context window, output limit, price and address by model name. A YAML file that the chart mounts.

An Agent's own fields take precedence over the catalog, and the catalog over the defaults. Unknown keys are an error, so
that a misspelt price fails at start instead of producing wrong costs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRICE_KEYS = {"inputPerMillion", "outputPerMillion", "cachedInputPerMillion", "cacheWritePerMillion"}
MODEL_KEYS = {"contextWindow", "maxOutputTokens", "baseURL", "price"}
UNKNOWN_WINDOW: Final = 16_384
"""The context window, in tokens, of a model that neither a spec nor the catalog describes.

Too small a window causes earlier summaries; too large a window makes calls fail. Nearly every model that is served
today has at least this many tokens. It leaves 12,000 for the prompt beside the default output of 4,096.
"""
_DATED: Final = re.compile(
    r"(?P<family>.+?)[-@](?:20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))"
)
"""A name and a date: `gpt-4o-mini-2024-07-18`, `claude-sonnet-4-20250514`, `gpt-4-0613`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    context_window: int = UNKNOWN_WINDOW
    max_output_tokens: int = 4096
    base_url: str = ""
    """An empty string means the provider's own address."""
    price: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    models: Mapping[str, ModelDefaults] = field(default_factory=dict)

    def lookup(self, model: str) -> ModelDefaults:
        """Return the defaults of the model, or those of its family if only the date differs."""
        return self.models.get(self.entry(model), ModelDefaults())

    def entry(self, model: str) -> str:
        """Return the name of the catalog entry for the model or its family, or an empty string.

        A family is the whole name without a date at its end, so `gpt-4o-audio` never counts as `gpt-4o`.
        """
        if model in self.models:
            return model
        dated = _DATED.fullmatch(model)
        family = dated["family"] if dated else ""
        return family if family in self.models else ""


def parse_catalog(document: Any) -> Catalog:
    """Parse a YAML document of the form `{models: {<name>: {contextWindow, maxOutputTokens, baseURL, price}}}`.

    Raises:
        ValueError: The document has another shape; the message names the place.
    """
    models = (document or {}).get("models", {})
    if not isinstance(models, Mapping):
        raise ValueError("catalog: models must be a mapping from model names to properties")
    return Catalog({str(name): _model(str(name), facts) for name, facts in models.items()})


def _model(name: str, facts: Any) -> ModelDefaults:
    if not isinstance(facts, Mapping):
        raise ValueError(f"catalog: models[{name}] must be a mapping")
    if unknown := set(facts) - MODEL_KEYS:
        raise ValueError(f"catalog: models[{name}] has unknown keys {sorted(unknown)}; known are {sorted(MODEL_KEYS)}")
    fallback = ModelDefaults()
    price = facts.get("price")
    return ModelDefaults(
        context_window=int(facts.get("contextWindow", fallback.context_window)),
        max_output_tokens=int(facts.get("maxOutputTokens", fallback.max_output_tokens)),
        base_url=str(facts.get("baseURL", fallback.base_url)),
        price=None if price is None else _price(name, price),
    )


def _price(name: str, price: Any) -> dict[str, str]:
    if (
        not isinstance(price, Mapping)
        or set(price) - PRICE_KEYS
        or not {"inputPerMillion", "outputPerMillion"} <= set(price)
    ):
        raise ValueError(
            f"catalog: models[{name}].price needs inputPerMillion and outputPerMillion,"
            " and may have cachedInputPerMillion and cacheWritePerMillion"
        )
    return {str(key): str(value) for key, value in price.items()}
