"""The models of an agent, its own and its fallbacks: their addresses, and their configuration for the runtime.

A fallback with its own `baseURL` inherits nothing about the address of the agent's model. So a key is only ever sent to
the address for which it was declared.
"""

from collections.abc import Mapping
from typing import Any

from fleetwright_api import durations
from fleetwright_api.model_catalog import UNKNOWN_WINDOW, Catalog
from fleetwright_api.violation import Violation
from fleetwright_operator.build.pod.file_references import api_key, certificate_authority, header_files

Model = Mapping[str, Any]

DEFAULT_TIMEOUT = "120s"
OPENAI = "OpenAI"
ANTHROPIC = "Anthropic"
GOOGLE = "Google"
_ADDRESSES = {
    OPENAI: "https://api.openai.com/v1",
    ANTHROPIC: "https://api.anthropic.com",
    GOOGLE: "https://generativelanguage.googleapis.com",
}
_MANNER = ("temperature", "timeout", "retries")
_PLACE = (
    "provider",
    "baseURL",
    "apiKeySecretRef",
    "headersFrom",
    "caSecretRef",
    "proxyURL",
    "promptCache",
    "extraBody",
)


def declared_models(spec: Mapping[str, Any]) -> list[tuple[str, Model]]:
    """Return the agent's own model and its fallbacks, each complete, with its field."""
    own = spec.get("model", {})
    fallbacks = [_whole(fallback, own) for fallback in own.get("fallbacks", ())]
    return [("spec.model", own), *((f"spec.model.fallbacks[{n}]", model) for n, model in enumerate(fallbacks))]


def _whole(fallback: Model, own: Model) -> Model:
    inherited = _MANNER if "baseURL" in fallback else (*_MANNER, *_PLACE)
    return {**{field: own[field] for field in inherited if field in own}, **fallback}


def priced_models(spec: Mapping[str, Any]) -> list[tuple[str, Model]]:
    """Return every model that may be called, with the field that names it."""
    auxiliary = spec.get("model", {}).get("auxiliary")
    cheaper = [
        (f"spec.budgets[{budget['period']}].downgrade.model", budget["downgrade"]["model"])
        for budget in spec.get("budgets", ())
        if "downgrade" in budget
    ]
    delegates = [
        (f"spec.subAgents[{each['name']}].model", each["model"])
        for each in spec.get("subAgents", ())
        if "model" in each
    ]
    return [*declared_models(spec), *([("spec.model.auxiliary", auxiliary)] if auxiliary else []), *cheaper, *delegates]


def price_of(model: Model, catalog: Catalog) -> Mapping[str, str] | None:
    declared: Mapping[str, str] | None = model.get("price")
    return declared or catalog.lookup(model["name"]).price


def unpriced(spec: Mapping[str, Any], catalog: Catalog) -> Violation | None:
    """Return a violation that lists the models without a known price."""
    found = [(field, model["name"]) for field, model in priced_models(spec) if price_of(model, catalog) is None]
    texts = [f"{name!r} has no price, so only its tokens are counted; set {field}.price" for field, name in found]
    return Violation("PriceUnknown", "; ".join(texts)) if texts else None


def assumed(spec: Mapping[str, Any], catalog: Catalog) -> Violation | None:
    """Return a violation that lists the models whose window or price is assumed.

    Either nothing is known about the model, or only about its family.
    """
    unknown, dated = [], []
    for field, model in priced_models(spec):
        name, family = model["name"], catalog.entry(model["name"])
        takes = [word for word, key in (("window", "contextWindow"), ("price", "price")) if key not in model]
        if not family and _window_assumed(model, catalog):
            unknown.append(
                f"{field}: the window of {name!r} is unknown, so a small one is assumed; set {field}.contextWindow"
            )
        elif family and family != name and takes:
            dated.append(f"{field}: {name!r} is not in the catalog and uses the {' and '.join(takes)} of {family!r}")
    if not unknown and not dated:
        return None
    return Violation("WindowUnknown" if unknown else "FamilyAssumed", "; ".join([*unknown, *dated]))


def _window_assumed(model: Model, catalog: Catalog) -> bool:
    return "contextWindow" not in model and not catalog.entry(model["name"])


def window_of(model: Model, catalog: Catalog, *, output: int) -> int:
    """Return the context window of a model. An assumed window leaves room for an answer of `output` tokens."""
    if _window_assumed(model, catalog):
        return max(UNKNOWN_WINDOW, 2 * output)
    return int(model.get("contextWindow", catalog.lookup(model["name"]).context_window))


def output_of(model: Model, catalog: Catalog) -> int:
    """Return the most tokens that an answer of the model may have."""
    return int(model.get("maxOutputTokens", catalog.lookup(model.get("name", "")).max_output_tokens))


def base_url(model: Model, catalog: Catalog) -> str:
    known = model.get("baseURL") or catalog.lookup(model["name"]).base_url
    return str(known or _ADDRESSES[model.get("provider", OPENAI)])


def destination(model: Model, catalog: Catalog) -> str:
    """Return the address that calls are sent to: the proxy if there is one."""
    return str(model.get("proxyURL") or base_url(model, catalog))


def models_config(spec: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the `model` section of agent.json."""
    own, *fallbacks = (_endpoint(field, model, catalog) for field, model in declared_models(spec))
    auxiliary = spec["model"].get("auxiliary")
    return {
        **own,
        **({"fallbacks": fallbacks} if fallbacks else {}),
        **({"auxiliary": other_model(auxiliary, catalog, output=own["maxOutputTokens"])} if auxiliary else {}),
    }


def _endpoint(field: str, model: Model, catalog: Catalog) -> dict[str, Any]:
    output = output_of(model, catalog)
    key, authority = api_key(model, field), certificate_authority(model, field)
    headers = [{"name": name, "valueFile": mounted.path} for name, mounted in header_files(model, field).items()]
    price, provider = price_of(model, catalog), model.get("provider", OPENAI)
    return {
        **({"provider": provider} if provider != OPENAI else {}),
        "name": model["name"],
        "baseUrl": base_url(model, catalog),
        "contextWindow": window_of(model, catalog, output=output),
        **({"contextWindowAssumed": True} if _window_assumed(model, catalog) else {}),
        "maxOutputTokens": output,
        "timeoutSeconds": durations.seconds(model.get("timeout", DEFAULT_TIMEOUT)),
        **({"apiKeyFile": key.path} if key else {}),
        **({"headers": headers} if headers else {}),
        **({"caFile": authority.path} if authority else {}),
        **({"proxyUrl": model["proxyURL"]} if "proxyURL" in model else {}),
        **({"temperature": float(model["temperature"])} if "temperature" in model else {}),
        **({"extraBody": dict(model["extraBody"])} if model.get("extraBody") else {}),
        **({"retries": model["retries"]} if "retries" in model else {}),
        **({"promptCache": True} if model.get("promptCache", provider == ANTHROPIC) else {}),
        **({"vision": True} if model.get("vision") else {}),
        **({"reasoningEffort": model["reasoningEffort"]} if "reasoningEffort" in model else {}),
        **({"price": dict(price)} if price else {}),
    }


def other_model(model: Model, catalog: Catalog, *, output: int) -> dict[str, Any]:
    """Return a model at the address of the agent's own, whose answers have at most `output` tokens."""
    window = window_of(model, catalog, output=output)
    price = price_of(model, catalog)
    return {"name": model["name"], "contextWindow": window, **({"price": dict(price)} if price else {})}
