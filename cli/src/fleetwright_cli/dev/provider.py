"""Selects the model of a local run: the offline server, or the provider that the environment names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

KEY_SECRET = "provider"  # noqa: S105 - the name of a Secret, not its content
KEY_NAME = "api-key"
_DEFAULT_MODEL = "gpt-4o-mini"
_OF_THE_DECLARED: Final = frozenset(
    {
        *("apiKeySecretRef", "headersFrom", "caSecretRef", "proxyURL", "fallbacks", "auxiliary"),
        *("provider", "promptCache", "reasoningEffort", "vision"),
    }
)
"""Fields of a model that depend on its declared provider, or that are substituted separately."""


@dataclass(frozen=True, slots=True)
class SubstituteProvider:
    """A model provider. A real one has a key; the offline one has only an address."""

    base_url: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def offline(self) -> bool:
        return self.key is None


def provider_from(environ: Mapping[str, str], *, offline_url: str) -> SubstituteProvider:
    """Return the provider. OPENAI_API_KEY selects a real one, with OPENAI_BASE_URL and OPENAI_MODEL."""
    key = environ.get("OPENAI_API_KEY")
    if not key:
        return SubstituteProvider(offline_url)
    base_url = environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    return SubstituteProvider(base_url, environ.get("OPENAI_MODEL") or _DEFAULT_MODEL, key)


def with_provider(agent: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    """Return the agent with all its models replaced by the provider's.

    A price that was declared for another model is removed with its name.
    """
    own = agent["spec"]["model"]
    model = _substituted(own, provider)
    if fallbacks := own.get("fallbacks"):
        model["fallbacks"] = [_keyed(_substituted(each, provider), provider) for each in fallbacks]
    if auxiliary := own.get("auxiliary"):
        model["auxiliary"] = _named(auxiliary, provider)
    spec = {**agent["spec"], "model": _keyed(model, provider)}
    if "subAgents" in spec:
        spec["subAgents"] = [_with_other(each, provider) for each in spec["subAgents"]]
    if "budgets" in spec:
        spec["budgets"] = [_with_downgrade(each, provider) for each in spec["budgets"]]
    return {**agent, "spec": spec}


def substitutions(agent: Mapping[str, Any], provider: SubstituteProvider) -> list[str]:
    """Return a line for each model of the agent that the provider's model replaces."""
    spec = agent["spec"]
    own = spec["model"]
    declared = [
        ("model", own),
        *((f"model.fallbacks[{place}]", each) for place, each in enumerate(own.get("fallbacks", ()))),
        ("model.auxiliary", own.get("auxiliary")),
        *((f"subAgents[{each['name']}].model", each.get("model")) for each in spec.get("subAgents", ())),
        *(
            (f"budgets[{each['period']}].downgrade.model", each.get("downgrade", {}).get("model"))
            for each in spec.get("budgets", ())
        ),
    ]
    return [
        f"{field} {_told(each, own)} is answered by {_answerer(each, provider)}" for field, each in declared if each
    ]


def _told(model: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    address = model.get("baseURL") or own.get("baseURL")
    return f"{model['name']} at {address}" if address else str(model["name"])


def _answerer(model: Mapping[str, Any], provider: SubstituteProvider) -> str:
    name = "the offline model" if provider.offline else provider.model or model["name"]
    return f"{name} at {provider.base_url}"


def _substituted(model: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    kept = {field: value for field, value in model.items() if field not in _OF_THE_DECLARED}
    # A fallback without an address uses that of the agent's own model, which is the provider already.
    return _named({**kept, "baseURL": provider.base_url}, provider)


def _with_other(part: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    """Return a part of the spec whose model, if any, is replaced."""
    return {**part, "model": _named(part["model"], provider)} if "model" in part else dict(part)


def _with_downgrade(budget: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    downgrade = budget.get("downgrade")
    return {**budget, "downgrade": _with_other(downgrade, provider)} if downgrade else dict(budget)


def _keyed(model: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    key = {} if provider.key is None else {"apiKeySecretRef": {"name": KEY_SECRET, "key": KEY_NAME}}
    return {**model, **key}


def _named(model: Mapping[str, Any], provider: SubstituteProvider) -> dict[str, Any]:
    if provider.key is None:
        return dict(model)
    left = {field: value for field, value in model.items() if field not in ("price", "temperature")}
    return {**left, "name": provider.model}
