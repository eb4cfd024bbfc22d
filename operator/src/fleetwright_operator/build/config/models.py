"""The models of an agent, its own and its fallbacks: their addresses, and their configuration for the runtime."""

from collections.abc import Mapping
from typing import Any

from fleetwright_api import durations
from fleetwright_api.model_catalog import UNKNOWN_WINDOW, Catalog
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.model import ModelEndpointSpec, NamedModelSpec
from fleetwright_api.violation import Violation
from fleetwright_operator.build.pod.file_references import api_key, certificate_authority, header_files

DEFAULT_TIMEOUT = "120s"
OPENAI = "OpenAI"
ANTHROPIC = "Anthropic"
GOOGLE = "Google"
_ADDRESSES = {
    OPENAI: "https://api.openai.com/v1",
    ANTHROPIC: "https://api.anthropic.com",
    GOOGLE: "https://generativelanguage.googleapis.com",
}


def declared_models(spec: AgentSpec) -> list[tuple[str, ModelEndpointSpec]]:
    """Return the agent's own model and its fallbacks, each complete, with its field."""
    fallbacks = enumerate(spec.model.complete_fallbacks)
    return [("spec.model", spec.model), *((f"spec.model.fallbacks[{n}]", model) for n, model in fallbacks)]


def priced_models(spec: AgentSpec) -> list[tuple[str, NamedModelSpec]]:
    """Return every model that may be called, with the field that names it."""
    auxiliary = spec.model.auxiliary
    cheaper = [
        (f"spec.budgets[{budget.period}].downgrade.model", budget.downgrade.model)
        for budget in spec.budgets
        if budget.downgrade is not None
    ]
    delegates = [
        (f"spec.subAgents[{each.name}].model", each.model) for each in spec.sub_agents if each.model is not None
    ]
    return [*declared_models(spec), *([("spec.model.auxiliary", auxiliary)] if auxiliary else []), *cheaper, *delegates]


def price_of(model: NamedModelSpec, catalog: Catalog) -> Mapping[str, str] | None:
    return catalog.lookup(model.name).price if model.price is None else encode(model.price)


def is_priced(model: NamedModelSpec, catalog: Catalog) -> bool:
    return model.price is not None or catalog.lookup(model.name).price is not None


def provider_of(model: ModelEndpointSpec) -> str:
    return model.provider or OPENAI


def unpriced(spec: AgentSpec, catalog: Catalog) -> Violation | None:
    """Return a violation that lists the models without a known price."""
    found = [(field, model.name) for field, model in priced_models(spec) if not is_priced(model, catalog)]
    texts = [f"{name!r} has no price, so only its tokens are counted; set {field}.price" for field, name in found]
    return Violation("PriceUnknown", "; ".join(texts)) if texts else None


def assumed(spec: AgentSpec, catalog: Catalog) -> Violation | None:
    """Return a violation that lists the models whose window or price is assumed.

    The catalog states no window of the model, or contains only the family of the model.
    """
    unknown, dated = [], []
    for field, model in priced_models(spec):
        name, family = model.name, catalog.entry(model.name)
        is_assumed = _window_assumed(model, catalog)
        takes = [
            *(["window"] if model.context_window is None and not is_assumed else []),
            *(["price"] if model.price is None else []),
        ]
        if is_assumed:
            unknown.append(
                f"{field}: the window of {name!r} is unknown, so a small one is assumed; set {field}.contextWindow"
            )
        if family and family != name and takes:
            dated.append(f"{field}: {name!r} is not in the catalog and uses the {' and '.join(takes)} of {family!r}")
    if not unknown and not dated:
        return None
    return Violation("WindowUnknown" if unknown else "FamilyAssumed", "; ".join([*unknown, *dated]))


def _window_assumed(model: NamedModelSpec, catalog: Catalog) -> bool:
    return model.context_window is None and catalog.lookup(model.name).context_window is None


def window_of(model: NamedModelSpec, catalog: Catalog, *, output: int) -> int:
    """Return the context window of a model. An assumed window leaves room for an answer of `output` tokens."""
    known = catalog.lookup(model.name).context_window if model.context_window is None else model.context_window
    return max(UNKNOWN_WINDOW, 2 * output) if known is None else known


def output_of(model: ModelEndpointSpec, catalog: Catalog) -> int:
    """Return the largest number of tokens that an answer of the model may have."""
    return catalog.lookup(model.name).max_output_tokens if model.max_output_tokens is None else model.max_output_tokens


def base_url(model: ModelEndpointSpec, catalog: Catalog) -> str:
    """Return the address of the model; empty if its provider is unknown."""
    return model.base_url or catalog.lookup(model.name).base_url or _ADDRESSES.get(provider_of(model), "")


def destination(model: ModelEndpointSpec, catalog: Catalog) -> str:
    """Return the address that calls are sent to: the proxy if there is one."""
    return model.proxy_url or base_url(model, catalog)


def models_config(spec: AgentSpec, catalog: Catalog) -> dict[str, Any]:
    """Return the `model` section of agent.json."""
    own, *fallbacks = (_endpoint(field, model, catalog) for field, model in declared_models(spec))
    auxiliary = spec.model.auxiliary
    return {
        **own,
        **({"fallbacks": fallbacks} if fallbacks else {}),
        **({"auxiliary": other_model(auxiliary, catalog, output=own["maxOutputTokens"])} if auxiliary else {}),
    }


def _endpoint(field: str, model: ModelEndpointSpec, catalog: Catalog) -> dict[str, Any]:
    output = output_of(model, catalog)
    key, authority = api_key(model, field), certificate_authority(model, field)
    headers = [{"name": name, "valueFile": mounted.path} for name, mounted in header_files(model, field).items()]
    price, provider = price_of(model, catalog), provider_of(model)
    return {
        **({"provider": provider} if provider != OPENAI else {}),
        "name": model.name,
        "baseUrl": base_url(model, catalog),
        "contextWindow": window_of(model, catalog, output=output),
        **({"contextWindowAssumed": True} if _window_assumed(model, catalog) else {}),
        "maxOutputTokens": output,
        "timeoutSeconds": durations.seconds(DEFAULT_TIMEOUT if model.timeout is None else model.timeout),
        **({"apiKeyFile": key.path} if key else {}),
        **({"headers": headers} if headers else {}),
        **({"caFile": authority.path} if authority else {}),
        **({"proxyUrl": model.proxy_url} if model.proxy_url is not None else {}),
        **({"temperature": float(model.temperature)} if model.temperature is not None else {}),
        **({"extraBody": dict(model.extra_body)} if model.extra_body else {}),
        **({"retries": model.retries} if model.retries is not None else {}),
        **({"promptCache": True} if _caches_prompts(model) else {}),
        **({"vision": True} if model.vision else {}),
        **({"reasoningEffort": model.reasoning_effort} if model.reasoning_effort is not None else {}),
        **({"price": dict(price)} if price else {}),
    }


def _caches_prompts(model: ModelEndpointSpec) -> bool:
    return provider_of(model) == ANTHROPIC if model.prompt_cache is None else model.prompt_cache


def other_model(model: NamedModelSpec, catalog: Catalog, *, output: int) -> dict[str, Any]:
    """Return another model at the address of the agent's own model. The answers have at most `output` tokens."""
    price = price_of(model, catalog)
    return {
        "name": model.name,
        "contextWindow": window_of(model, catalog, output=output),
        **({"contextWindowAssumed": True} if _window_assumed(model, catalog) else {}),
        **({"price": dict(price)} if price else {}),
    }
