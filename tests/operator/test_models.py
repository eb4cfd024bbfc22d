"""Where the models of an agent are, what is sent there, and what is said where nobody knows what they cost."""

import pytest

from fleetwright_operator.catalog import parse_catalog
from fleetwright_operator.desired.egress import egress_routes
from fleetwright_operator.desired.models import models_config, unpriced
from fleetwright_operator.desired.references import file_references

PRICE = {"inputPerMillion": "1", "outputPerMillion": "2"}
OWN = {
    "name": "own",
    "baseURL": "https://own.example.com/v1",
    "apiKeySecretRef": {"name": "own"},
    "headersFrom": [{"name": "X-Tenant", "secretKeyRef": {"name": "own", "key": "tenant"}}],
    "caSecretRef": {"name": "own"},
    "proxyURL": "http://proxy.example.com:3128",
    "temperature": "0.5",
    "timeout": "30s",
    "retries": 0,
    "price": PRICE,
}
ELSEWHERE = {"name": "other", "baseURL": "https://other.example.com", "provider": "Anthropic"}
CATALOG = parse_catalog({"models": {"known": {"contextWindow": 9, "maxOutputTokens": 3, "price": PRICE}}})
PLACE = {"baseUrl", "apiKeyFile", "headers", "caFile", "proxyUrl"}


def test_a_fallback_without_an_address_is_where_the_agents_model_is():
    own = models_config({"model": {**OWN, "fallbacks": [{"name": "known"}]}}, CATALOG)
    (fallback,) = own["fallbacks"]
    assert {key: fallback[key] for key in PLACE} == {key: own[key] for key in PLACE}
    assert (fallback["name"], fallback["contextWindow"], fallback["timeoutSeconds"], fallback["retries"]) == (
        "known",
        9,
        30,
        0,
    )


def test_one_with_an_address_takes_no_credential_along():
    (fallback,) = models_config({"model": {**OWN, "fallbacks": [ELSEWHERE]}}, CATALOG)["fallbacks"]
    assert PLACE & set(fallback) == {"baseUrl"}
    assert (fallback["provider"], fallback["promptCache"], fallback["temperature"]) == ("Anthropic", True, 0.5)


@pytest.mark.parametrize(
    ("model", "address", "cached"),
    [
        pytest.param({"name": "m"}, "https://api.openai.com/v1", False, id="OpenAI's"),
        pytest.param({"name": "m", "provider": "Anthropic"}, "https://api.anthropic.com", True, id="Anthropic's"),
        pytest.param(
            {"name": "m", "provider": "Anthropic", "promptCache": False},
            "https://api.anthropic.com",
            False,
            id="uncached",
        ),
    ],
)
def test_a_model_without_an_address_is_at_its_providers(model, address, cached):
    found = models_config({"model": model}, CATALOG)
    assert (found["baseUrl"], found.get("promptCache", False)) == (address, cached)


def test_the_files_of_every_model_are_mounted():
    agent = {"spec": {"model": {**OWN, "fallbacks": [{**ELSEWHERE, "apiKeySecretRef": {"name": "theirs"}}]}}}
    fields = {reference.field: reference.path for reference in file_references(agent)}
    assert fields["spec.model.fallbacks[0].apiKeySecretRef"] == "secrets/theirs/api-key"
    assert len(fields) == 4


def test_every_address_is_opened_once(objects, settings):
    own = {key: OWN[key] for key in ("name", "baseURL")}
    agent = objects.agent(model={**own, "fallbacks": [{"name": "known"}, ELSEWHERE]})
    routes = [
        route for route in egress_routes(agent, servers={}, services={}, settings=settings) if "model" in route.why
    ]
    assert [(route.why, route.name) for route in routes] == [
        ("model own and known", "own.example.com"),
        ("model other", "other.example.com"),
    ]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"model": {"name": "known"}}, [], id="a price of the catalog is one"),
        pytest.param({"model": {"name": "m"}}, ["spec.model"], id="the agent's own"),
        pytest.param(
            {"model": {**OWN, "fallbacks": [{"name": "known"}, {"name": "m"}], "auxiliary": {"name": "m"}}},
            ["spec.model.fallbacks[1]", "spec.model.auxiliary"],
            id="a fallback has a price of its own, and so has the auxiliary",
        ),
        pytest.param(
            {"model": OWN, "budgets": [{"period": "Day", "tokens": 1, "downgrade": {"model": {"name": "m"}}}]},
            ["spec.budgets[Day].downgrade.model"],
            id="the one that takes over from a budget",
        ),
    ],
)
def test_what_has_no_price_is_named(spec, fields):
    found = unpriced(spec, CATALOG)
    assert [field for field in fields if found is None or f"set {field}.price" not in found.message] == []
    assert (found is None) == (not fields)


async def test_an_unpriced_model_is_a_condition_until_it_has_a_price(world, api, objects):
    api.put(objects.agent(model={"name": "m", "baseURL": OWN["baseURL"]}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["ModelUnpriced"]
    assert (status, reason) == ("True", "PriceUnknown")
    assert message == "'m' has no price, so only its tokens are counted: set spec.model.price"
    body = api.find("Agent", "poet")
    api.put({**body, "spec": {**body["spec"], "model": {"name": "m", "baseURL": OWN["baseURL"], "price": PRICE}}})
    await world.settle()
    assert "ModelUnpriced" not in world.conditions("Agent", "poet")
