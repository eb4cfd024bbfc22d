"""Selects the model of a local run: the offline server, or the provider that the environment names."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_api.spec.model import ModelEndpointSpec, ModelSpec, NamedModelSpec
from fleetwright_api.spec.references import ApiKeyReference
from fleetwright_api.spec.tools import SubAgentSpec

KEY_SECRET = "provider"  # noqa: S105 - the name of a Secret, not its content
KEY_NAME = "api-key"
_DEFAULT_MODEL = "gpt-4o-mini"
ModelT = TypeVar("ModelT", bound=NamedModelSpec)
EndpointT = TypeVar("EndpointT", bound=ModelEndpointSpec)


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


def with_provider(spec: AgentSpec, provider: SubstituteProvider) -> AgentSpec:
    """Return the spec with all its models replaced by the provider's.

    A price that was declared for another model is removed with its name.
    """
    own = replace(
        _substituted(spec.model, provider),
        fallbacks=tuple(_substituted(each, provider) for each in spec.model.fallbacks),
        auxiliary=_named(spec.model.auxiliary, provider) if spec.model.auxiliary else None,
    )
    return replace(
        spec,
        model=own,
        sub_agents=tuple(_with_other(each, provider) for each in spec.sub_agents),
        budgets=tuple(_with_downgrade(each, provider) for each in spec.budgets),
    )


def substitutions(spec: AgentSpec, provider: SubstituteProvider) -> list[str]:
    """Return a line for each model of the agent that the provider's model replaces."""
    own = spec.model
    declared: list[tuple[str, NamedModelSpec | None]] = [
        ("model", own),
        *((f"model.fallbacks[{place}]", each) for place, each in enumerate(own.fallbacks)),
        ("model.auxiliary", own.auxiliary),
        *((f"subAgents[{each.name}].model", each.model) for each in spec.sub_agents),
        *(
            (f"budgets[{each.period}].downgrade.model", each.downgrade.model if each.downgrade else None)
            for each in spec.budgets
        ),
    ]
    return [
        f"{field} {_described(each, own)} is answered by {_answerer(each, provider)}"
        for field, each in declared
        if each is not None
    ]


def _described(model: NamedModelSpec, own: ModelSpec) -> str:
    address = (model.base_url if isinstance(model, ModelEndpointSpec) else None) or own.base_url
    return f"{model.name} at {address}" if address else model.name


def _answerer(model: NamedModelSpec, provider: SubstituteProvider) -> str:
    name = "the offline model" if provider.offline else provider.model or model.name
    return f"{name} at {provider.base_url}"


def _substituted(model: EndpointT, provider: SubstituteProvider) -> EndpointT:
    """Return the model at the provider's address, without the fields that depend on the declared provider."""
    key = None if provider.key is None else ApiKeyReference(name=KEY_SECRET, key=KEY_NAME)
    endpoint = replace(
        model,
        # A fallback without an address uses that of the agent's own model, which is the provider already.
        base_url=provider.base_url,
        api_key_secret_ref=key,
        headers_from=None,
        ca_secret_ref=None,
        proxy_url=None,
        provider=None,
        prompt_cache=None,
        reasoning_effort=None,
        vision=False,
        temperature=model.temperature if provider.offline else None,
    )
    return _named(endpoint, provider)


def _with_other(sub_agent: SubAgentSpec, provider: SubstituteProvider) -> SubAgentSpec:
    return replace(sub_agent, model=_named(sub_agent.model, provider)) if sub_agent.model else sub_agent


def _with_downgrade(budget: BudgetSpec, provider: SubstituteProvider) -> BudgetSpec:
    if budget.downgrade is None:
        return budget
    return replace(budget, downgrade=replace(budget.downgrade, model=_named(budget.downgrade.model, provider)))


def _named(model: ModelT, provider: SubstituteProvider) -> ModelT:
    return model if provider.offline else replace(model, name=provider.model or model.name, price=None)
