"""Credentials on a real API server: rotation refuses no caller, repair works, and the chart's rights suffice."""

import hashlib
import json
import time

import pytest


def digests(space, agent):
    callers = json.loads(space.secret(f"{agent}-auth").get("callers.json", '{"callers": []}'))["callers"]
    return {entry["sha256"] for entry in callers}


def opens(space, agent, token):
    return hashlib.sha256(token.encode()).hexdigest() in digests(space, agent)


def ask(space, secret):
    wish = {"metadata": {"annotations": {"fleetwright.dev/rotate": str(time.time_ns())}}}
    space.admin.merge("Secret", space.name, secret, wish)


EDGES = [
    pytest.param("poet-client-default", "token", "poet", id="a client's"),
    pytest.param("poet-auth", "peer.{}.helper", "helper", id="an agent's for its peer"),
]


@pytest.mark.parametrize(("secret", "key", "callee"), EDGES)
def test_token_rotation_accepts_readers_of_every_token(space, operator, secret, key, callee):
    space.agent("helper")
    space.agent("poet", peers=[{"name": "helper"}])
    key = key.format(space.name)
    first = space.eventually(lambda: space.secret(secret).get(key), "there is a token")
    space.eventually(lambda: opens(space, callee, first), "it opens")
    operator.wait_for_settled_writes()

    ask(space, secret)
    reads = 0

    def turned():
        nonlocal reads
        token = space.secret(secret)[key]
        assert opens(space, callee, token), "the callee already knows the token"
        reads += 1
        return token != first

    began = time.monotonic()
    space.eventually(turned, "another token is in use")
    print(f"another token was in use after {time.monotonic() - began:.1f} s and {reads} reads")  # noqa: T201 - the figure
    assert opens(space, callee, first), "a caller with the earlier token is still accepted"


def test_rotation_resumes_after_an_operator_restart(space, operator):
    space.agent("poet")
    first = space.eventually(lambda: space.secret("poet-client-default").get("token"), "there is a token")
    ask(space, "poet-client-default")
    following = space.eventually(lambda: space.secret("poet-client-default").get("next"), "the next one waits")
    operator.restart()
    assert space.secret("poet-client-default") in ({"token": first, "next": following}, {"token": following})
    space.eventually(lambda: space.secret("poet-client-default") == {"token": following}, "the next one is in use")


def test_deleted_or_forged_token_is_revoked_and_replaced(space, operator):
    space.agent("poet")
    first = space.eventually(lambda: space.secret("poet-client-default").get("token"), "there is a token")
    space.admin.delete("Secret", space.name, "poet-client-default")
    second = space.eventually(lambda: space.secret("poet-client-default").get("token"), "there is another")
    space.eventually(lambda: opens(space, "poet", second) and not opens(space, "poet", first), "the former one is void")

    forged = "Zm9yZ2Vk" * 8
    space.admin.merge("Secret", space.name, "poet-client-default", {"data": {"token": forged}})
    void = {None, second, "forged" * 8}
    third = space.eventually(lambda: {space.secret("poet-client-default").get("token")} - void, "a third one").pop()
    space.eventually(lambda: opens(space, "poet", third) and len(digests(space, "poet")) == 1, "it alone opens")


def test_token_expiry_is_in_the_status_and_a_metric(space, operator):
    space.agent("poet", auth={"tokenTTL": "10h", "overlap": "2h", "clients": [{"name": "web"}]})
    expires = space.eventually(lambda: space.get("Agent", "poet").get("status", {}).get("credentials"), "an end")
    shown = space.get("Secret", "poet-client-web")["metadata"]["annotations"]["fleetwright.dev/expires"]
    assert expires == {"expires": shown}
    labels = f'agent="poet",client="web",namespace="{space.name}"'
    metric = f"fleetwright_credential_expiry_timestamp_seconds{{{labels}}}"
    ends = space.eventually(lambda: operator.metrics().get(metric), "the metric")
    assert 11.9 * 3600 < ends - time.time() <= 12 * 3600


def test_api_key_scheme_is_on_the_card_only_if_enabled(space, operator):
    for name, auth in (("both", {"apiKey": True}), ("bearer", {})):
        space.agent(name, auth=auth)
        card = json.loads(space.get("ConfigMap", f"{name}-card")["data"]["agent-card.json"])
        schemes = ["apiKey", "bearer"] if auth else ["bearer"]
        assert sorted(card["securitySchemes"]) == schemes
        assert sorted(scheme for way in card["securityRequirements"] for scheme in way["schemes"]) == schemes
        revision = space.wait("Agent", name, "Programmed", "True")["message"].removeprefix("revision ")
        config = json.loads(space.get("ConfigMap", f"{name}-{revision}")["data"]["agent.json"])
        assert config.get("acceptApiKey", False) is bool(auth)


REFUSED = [
    pytest.param({"tokenTTL": "soon"}, "auth.tokenTTL must be a whole number and a unit", id="a life that is none"),
    pytest.param({"tokenTTL": "59s"}, "from 1m to 8760h", id="a life too short"),
    pytest.param({"tokenTTL": "8761h"}, "from 1m to 8760h", id="a life too long"),
    pytest.param({"overlap": "29s"}, "auth.overlap must be a whole number and a unit", id="an overlap too short"),
    pytest.param(
        {"tokenTTL": "1h", "overlap": "61m"},
        "auth.overlap must not be longer than auth.token",
        id="a longer overlap",
    ),
    pytest.param({"apiKey": "yes"}, "apiKey", id="a word for a switch"),
    pytest.param({"allowedOrigins": ["https://a.example/"]}, "auth.allowedOrigins must be", id="an origin with a path"),
    pytest.param({"allowedOrigins": ["*.example.com"]}, "auth.allowedOrigins must be", id="origins by a pattern"),
]


@pytest.mark.parametrize(("auth", "says"), REFUSED)
def test_auth_settings_with_invalid_lifetimes_are_refused(space, refusal, auth, says):
    with pytest.raises(refusal) as caught:
        space.agent("poet", auth=auth)
    assert says in caught.value.message
