"""The model settings of an agent: endpoints, request fields, and the message for an unknown price."""

import pytest

from fleetwright_api.model_catalog import parse_catalog
from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.build.config.models import assumed, models_config, unpriced
from fleetwright_operator.build.network.egress import derived_egress_rules
from fleetwright_operator.build.pod.file_references import file_references

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


def parsed(spec):
    return parse_agent({"metadata": {"name": "poet", "namespace": "shop"}, "spec": spec}).spec


PLACE = {"baseUrl", "apiKeyFile", "headers", "caFile", "proxyUrl"}


def test_fallback_without_base_url_inherits_the_model_endpoint():
    own = models_config(parsed({"model": {**OWN, "fallbacks": [{"name": "known"}]}}), CATALOG)
    (fallback,) = own["fallbacks"]
    assert {key: fallback[key] for key in PLACE} == {key: own[key] for key in PLACE}
    assert (fallback["name"], fallback["contextWindow"], fallback["timeoutSeconds"], fallback["retries"]) == (
        "known",
        9,
        30,
        0,
    )


def test_fallback_with_base_url_inherits_no_credential():
    (fallback,) = models_config(parsed({"model": {**OWN, "fallbacks": [ELSEWHERE]}}), CATALOG)["fallbacks"]
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
def test_model_without_base_url_uses_the_provider_default(model, address, cached):
    found = models_config(parsed({"model": model}), CATALOG)
    assert (found["baseUrl"], found.get("promptCache", False)) == (address, cached)


def test_file_references_cover_every_model():
    spec = {"model": {**OWN, "fallbacks": [{**ELSEWHERE, "apiKeySecretRef": {"name": "theirs"}}]}}
    fields = {reference.field: reference.path for reference in file_references(parsed(spec))}
    assert fields["spec.model.fallbacks[0].apiKeySecretRef"] == "secrets/theirs/api-key"
    assert len(fields) == 4


def test_model_egress_rules_open_each_address_once(objects, settings):
    own = {key: OWN[key] for key in ("name", "baseURL")}
    agent = objects.agent_view(model={**own, "fallbacks": [{"name": "known"}, ELSEWHERE]})
    egress_rules = [
        route
        for route in derived_egress_rules(agent, servers={}, services={}, settings=settings)
        if "model" in route.why
    ]
    assert [(route.why, route.name) for route in egress_rules] == [
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
def test_unpriced_names_models_without_a_price(spec, fields):
    found = unpriced(parsed(spec), CATALOG)
    assert [field for field in fields if found is None or f"set {field}.price" not in found.message] == []
    assert (found is None) == (not fields)


async def test_model_unpriced_condition_ends_with_a_price(world, api, objects):
    api.put(objects.agent(model={"name": "m", "baseURL": OWN["baseURL"]}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["ModelUnpriced"]
    assert (status, reason) == ("True", "PriceUnknown")
    assert message == "'m' has no price, so only its tokens are counted; set spec.model.price"
    body = api.find("Agent", "poet")
    api.put({**body, "spec": {**body["spec"], "model": {"name": "m", "baseURL": OWN["baseURL"], "price": PRICE}}})
    await world.settle()
    assert "ModelUnpriced" not in world.conditions("Agent", "poet")


FAMILIES = parse_catalog({"models": {"mini": {"contextWindow": 90_000, "price": PRICE}, "mini-2024-01-01": {}}})


@pytest.mark.parametrize(
    ("name", "window", "is_priced"),
    [
        pytest.param("mini", 90_000, True, id="its own entry"),
        pytest.param("mini-2024-07-18", 90_000, True, id="a date with dashes"),
        pytest.param("mini-20240718", 90_000, True, id="a date without"),
        pytest.param("mini@20240718", 90_000, True, id="a date behind an at sign"),
        pytest.param("mini-0613", 90_000, True, id="month and day"),
        pytest.param("mini-2024-01-01", 16_384, False, id="an entry of that date wins"),
        pytest.param("mini-audio", 16_384, False, id="another word"),
        pytest.param("mini-audio-2024-07-18", 16_384, False, id="another word and a date"),
        pytest.param("mini-2024-13-18", 16_384, False, id="no month"),
        pytest.param("mini-7024", 16_384, False, id="no date"),
        pytest.param("mini-", 16_384, False, id="nothing behind the dash"),
    ],
)
def test_dated_model_name_uses_window_and_price_of_its_family(name, window, is_priced):
    made = models_config(parsed({"model": {"name": name, "baseURL": OWN["baseURL"]}}), FAMILIES)
    assert (made["contextWindow"], "price" in made) == (window, is_priced)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        pytest.param({}, 16_384, id="neither spec nor catalog"),
        pytest.param({"contextWindow": 5000}, 5000, id="the spec says it"),
        pytest.param({"maxOutputTokens": 32_000}, 64_000, id="long answers still fit"),
    ],
)
def test_unknown_model_gets_a_small_assumed_context_window(model, window):
    """The context window of an unknown model is a small assumption, and the runtime is informed of it."""
    made = models_config(parsed({"model": {"name": "m", "baseURL": OWN["baseURL"], **model}}), CATALOG)
    assert made["contextWindow"] == window
    assert made.get("contextWindowAssumed", False) == ("contextWindow" not in model)


PRICED = parse_catalog({"models": {"m": {"price": PRICE}, "long": {"maxOutputTokens": 32_000, "price": PRICE}}})
UNKNOWN = "{field}: the window of {name!r} is unknown, so a small one is assumed; set {field}.contextWindow"


@pytest.mark.parametrize(
    ("name", "window", "message"),
    [
        pytest.param("m", 16_384, UNKNOWN.format(field="spec.model", name="m"), id="the entry has only a price"),
        pytest.param("long", 64_000, UNKNOWN.format(field="spec.model", name="long"), id="and long answers"),
        pytest.param(
            "m-2024-07-18",
            16_384,
            f"{UNKNOWN.format(field='spec.model', name='m-2024-07-18')};"
            " spec.model: 'm-2024-07-18' is not in the catalog and uses the price of 'm'",
            id="the family has only a price",
        ),
    ],
)
def test_catalog_entry_without_window_is_a_window_unknown(name, window, message):
    spec = parsed({"model": {"name": name, "baseURL": OWN["baseURL"]}})
    made, found = models_config(spec, PRICED), assumed(spec, PRICED)
    assert (made["contextWindow"], made.get("contextWindowAssumed")) == (window, True)
    assert (found.reason, found.message) == ("WindowUnknown", message)


@pytest.mark.parametrize(
    ("model", "assumed"),
    [
        pytest.param({"name": "m"}, True, id="no window in the catalog"),
        pytest.param({"name": "m", "contextWindow": 9000}, False, id="the spec states it"),
    ],
)
def test_other_model_tells_the_runtime_of_an_assumed_window(model, assumed):
    made = models_config(parsed({"model": {**OWN, "auxiliary": model}}), PRICED)["auxiliary"]
    assert made.get("contextWindowAssumed", False) is assumed


async def test_model_assumed_condition_ends_with_a_context_window(world, api, objects):
    api.put(objects.agent(model={"name": "m", "baseURL": OWN["baseURL"], "price": PRICE}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["ModelAssumed"]
    assert (status, reason) == ("True", "WindowUnknown")
    assert message.endswith("set spec.model.contextWindow")
    body = api.find("Agent", "poet")
    known = {"name": "m", "baseURL": OWN["baseURL"], "price": PRICE, "contextWindow": 9000}
    api.put({**body, "spec": {**body["spec"], "model": known}})
    await world.settle()
    assert "ModelAssumed" not in world.conditions("Agent", "poet")


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        pytest.param({}, "window and price", id="both"),
        pytest.param({"contextWindow": 9000}, "price", id="the price"),
        pytest.param({"contextWindow": 9000, "price": PRICE}, None, id="nothing"),
    ],
)
def test_assumed_names_the_values_used_from_the_family(model, takes):
    found = assumed(parsed({"model": {"name": "mini-2024-07-18", "baseURL": OWN["baseURL"], **model}}), FAMILIES)
    wanted = f"spec.model: 'mini-2024-07-18' is not in the catalog and uses the {takes} of 'mini'"
    assert (found and (found.reason, found.message)) == (None if takes is None else ("FamilyAssumed", wanted))
