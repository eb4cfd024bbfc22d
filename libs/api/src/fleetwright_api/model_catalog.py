"""The model catalog, a YAML file with the context window, output limit, price and address of each model.

The Helm chart mounts the file. An Agent's own fields take precedence over the catalog, and the catalog over the
defaults. Unknown keys are an error, so that a misspelt price fails at startup instead of producing wrong costs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PRICE_KEYS = {"inputPerMillion", "outputPerMillion", "cachedInputPerMillion", "cacheWritePerMillion"}
MODEL_KEYS = {"contextWindow", "maxOutputTokens", "baseURL", "price"}
UNKNOWN_WINDOW: Final = 16_384
"""The context window, in tokens, of a model that neither a spec nor the catalog describes.

If the assumed window is too small, conversations are summarised early. If it is too large, calls fail. Nearly every
model in use has at least this window. With the default output limit of 4,096 tokens, 12,000 remain for the prompt.
"""
_DATED: Final = re.compile(
    r"(?P<family>.+?)[-@](?:20\d\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))"
)
"""A model name that ends with a date: `gpt-4o-mini-2024-07-18`, `claude-sonnet-4-20250514`, `gpt-4-0613`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefaults:
    context_window: int | None = None
    """None if the catalog does not state the window."""
    max_output_tokens: int = 4096
    base_url: str = ""
    """The address of the model's API; an empty string means the provider's default address."""
    price: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    models: Mapping[str, ModelDefaults] = field(default_factory=dict)

    def lookup(self, model: str) -> ModelDefaults:
        """Return the entry of the model or of its family. Without an entry, return the general defaults."""
        return self.models.get(self.entry(model), ModelDefaults())

    def entry(self, model: str) -> str:
        """Return the name of the catalog entry for the model or its family, or an empty string.

        The family is the whole name without a date at its end, so `gpt-4o-audio` does not belong to `gpt-4o`.
        """
        if model in self.models:
            return model
        dated = _DATED.fullmatch(model)
        family = dated["family"] if dated else ""
        return family if family in self.models else ""


def parse_catalog(document: Any) -> Catalog:
    """Parse a YAML document of the form `{models: {<name>: {contextWindow, maxOutputTokens, baseURL, price}}}`.

    Raises:
        ValueError: The document has another form; the message names the invalid part.
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
    price, window = facts.get("price"), facts.get("contextWindow")
    return ModelDefaults(
        context_window=None if window is None else int(window),
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
