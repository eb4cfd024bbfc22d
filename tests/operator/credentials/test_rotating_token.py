"""The life of credentials: their rotation, the guarantees for callers, and the repair of damage."""

import base64
import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.support.examples import count_examples

from fleetwright_operator.credentials.rotating_token import (
    LEAD,
    RetiredToken,
    RotatingToken,
    Token,
    from_record,
    next_rotation,
    record,
    rotated,
)
from fleetwright_operator.credentials.rotation import Rotation

HOUR, DAY = 3600, 24 * 3600
ROTATION = Rotation(ttl=1000, overlap=100)
OLD = Token("old", 0, 1100)
NEXT = Token("next", 1000, 2100)


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


TURNS = [
    pytest.param(None, {"now": 5}, RotatingToken(Token("new", 5, 1105)), id="where there is none, one is made"),
    pytest.param(RotatingToken(OLD), {"now": 999}, RotatingToken(OLD), id="a young one stays"),
    pytest.param(
        RotatingToken(OLD), {"now": 1000}, RotatingToken(OLD, Token("new", 1000, 2100)), id="an old one gets a next"
    ),
    pytest.param(
        RotatingToken(OLD, NEXT), {"now": 1050}, RotatingToken(OLD, NEXT), id="a next that nobody lists waits"
    ),
    pytest.param(
        RotatingToken(OLD, NEXT),
        {"now": 1014, "listed": 1000},
        RotatingToken(OLD, NEXT),
        id="a next that was just listed waits",
    ),
    pytest.param(
        RotatingToken(OLD, NEXT),
        {"now": 1015, "listed": 1000},
        RotatingToken(NEXT, previous=RetiredToken(sha("old"), 1100)),
        id="a next that has been listed is used, and the old one keeps its end",
    ),
    pytest.param(
        RotatingToken(OLD, NEXT),
        {"now": 1004, "listed": 1000, "lead": 4},
        RotatingToken(NEXT, previous=RetiredToken(sha("old"), 1100)),
        id="an installation may use it sooner",
    ),
    pytest.param(
        RotatingToken(NEXT, previous=RetiredToken("0", 1100)),
        {"now": 1099},
        RotatingToken(NEXT, previous=RetiredToken("0", 1100)),
        id="the former one is good until its end",
    ),
    pytest.param(
        RotatingToken(NEXT, previous=RetiredToken("0", 1100)),
        {"now": 1100},
        RotatingToken(NEXT),
        id="and then forgotten",
    ),
    pytest.param(
        RotatingToken(OLD),
        {"now": 10, "asked": "a"},
        RotatingToken(OLD, Token("new", 10, 1110), asked="a"),
        id="a wish is granted",
    ),
    pytest.param(
        RotatingToken(OLD, asked="a"), {"now": 10, "asked": "a"}, RotatingToken(OLD, asked="a"), id="and granted once"
    ),
    pytest.param(
        RotatingToken(OLD, Token("new", 10, 1110), asked="a"),
        {"now": 25, "listed": 10, "asked": "a"},
        RotatingToken(Token("new", 10, 1110), previous=RetiredToken(sha("old"), 125), asked="a"),
        id="what was replaced early ends with the overlap",
    ),
    pytest.param(
        RotatingToken(OLD, NEXT, RetiredToken("0", 1090)),
        {"now": 1100, "listed": 1000},
        RotatingToken(Token("new", 1100, 2200)),
        id="what ran out while nobody looked is replaced at once",
    ),
    pytest.param(
        RotatingToken(Token("bare")),
        {"now": 7},
        RotatingToken(Token("bare", 7, 1107)),
        id="one without dates lives from now on",
    ),
    pytest.param(
        RotatingToken(Token("t", 9999, 99999)),
        {"now": 7},
        RotatingToken(Token("t", 7, 1107)),
        id="dates that no clock gave are cut to what a rotation gives",
    ),
    pytest.param(
        RotatingToken(OLD, previous=RetiredToken("0", 99999)),
        {"now": 7},
        RotatingToken(OLD, previous=RetiredToken("0", 107)),
        id="nobody prolongs a former one by hand",
    ),
]


@pytest.mark.parametrize(("stored", "seen", "wanted"), TURNS)
def test_rotated_follows_the_schedule(stored, seen, wanted):
    after = rotated(stored, rotation=ROTATION, mint=lambda: "new", **seen)
    assert after == wanted
    again = rotated(after, rotation=ROTATION, mint=lambda: pytest.fail("nobody asked"), **seen)
    assert again == after or seen.get("listed"), "a second pass changes nothing"


@given(
    steps=some.lists(some.tuples(some.integers(0, 20), some.booleans(), some.booleans()), min_size=1, max_size=80),
    ttl=some.integers(60, 600),
    part=some.integers(1, 100),
)
@settings(max_examples=count_examples(200), deadline=None)
def test_rotation_never_refuses_a_caller_that_rereads_its_token(steps, ttl, part):
    """The property holds for all pauses, rotation requests and list delays that fit into the overlap."""
    rotation = Rotation(ttl=ttl, overlap=max(100, ttl * part // 100))
    count = iter(range(10_000))
    credential, now, wishes = None, 0, 0
    accepted, since, late = {}, {}, False
    for pause, lists, rotation_request in steps:
        now += pause
        wishes += rotation_request
        known = credential and credential.next and credential.next.sha256 in accepted
        credential = rotated(
            credential,
            now=now,
            rotation=rotation,
            mint=lambda: f"t{next(count)}",
            listed=since[credential.next.sha256] if known else None,
            asked=str(wishes),
        )
        if not accepted or lists or late:
            accepted = dict(credential.accepted)
            since = {sha256: since.get(sha256, now) for sha256 in accepted}
        late = not lists
        current = credential.current.sha256
        assert current in accepted, "the callee knows the token in use"
        assert accepted[current] > now, "the token has not expired"


@given(now=some.integers(0, 5000), stored=some.sampled_from([case.values[0] for case in TURNS]))
def test_rotated_is_stable_until_next_rotation(now, stored):
    credential = rotated(stored, now=now, rotation=ROTATION, mint=lambda: "new")
    if credential.next is None:
        until = next_rotation(credential, rotation=ROTATION)
        assert until > now
        early = rotated(credential, now=until - 1, rotation=ROTATION, mint=lambda: "early", asked=credential.asked)
        assert early == credential
        assert (
            rotated(credential, now=until, rotation=ROTATION, mint=lambda: "newer", asked=credential.asked)
            != credential
        )


RECORDS = [
    pytest.param(RotatingToken(OLD), id="one alone"),
    pytest.param(RotatingToken(OLD, NEXT, RetiredToken("0" * 64, 500), asked="a"), id="everything at once"),
]


@pytest.mark.parametrize("credential", RECORDS)
def test_record_round_trips_with_tokens_and_contains_none(credential):
    """A record and its tokens restore the credential; the record alone contains no token."""
    document = json.loads(json.dumps(record(credential)))
    following = credential.next.text if credential.next else ""
    assert from_record(document, current=credential.current.text, following=following) == credential
    assert "old" not in str(document)
    assert "next-" not in str(document)


WRONG = [
    pytest.param({"current": {"sha256": sha("other"), "issued": "x", "expires": "y"}}, id="of another token"),
    pytest.param({"current": {"sha256": sha("old")}}, id="without dates"),
    pytest.param({"current": 7}, id="of another shape"),
    pytest.param([], id="a list"),
    pytest.param({}, id="an empty one"),
    pytest.param(record(replace(RotatingToken(OLD), next=NEXT)), id="whose next token is not there"),
]


@pytest.mark.parametrize("document", WRONG)
def test_from_record_rejects_a_record_of_another_token(document):
    assert from_record(document, current="old", following="") is None


# The reconcile loop.


def text_of(api, secret, key):
    return base64.b64decode(api.find("Secret", secret)["data"].get(key, "")).decode()


def listed(api, agent):
    """Return the expiry of every token that an agent accepts, by digest."""
    callers = json.loads(text_of(api, f"{agent}-auth", "callers.json"))["callers"]
    return {entry["sha256"]: entry.get("expires") for entry in callers}


def opens(api, agent, token):
    return sha(token) in listed(api, agent)


@pytest.fixture
async def pair(world, api, objects):
    api.put(objects.agent("helper"))
    api.put(objects.agent("poet", peers=[{"name": "helper"}]))
    await world.start()
    await world.settle()
    return world


def watch_every_step(world, api):
    """Check at each write that every token that a caller can read has been listed long enough."""
    known: dict[tuple[str, str], int] = {}

    def look(event, kind, body):
        if kind != "Secret" or not body["metadata"]["name"].startswith(("poet", "helper")):
            return
        for agent in ("poet", "helper"):
            lists = listed(api, agent)
            for digest in lists:
                known.setdefault((agent, digest), world.moment)
            for gone in [key for key in known if key[0] == agent and key[1] not in lists]:
                del known[gone]
        held = [("poet", text_of(api, "poet-client-default", "token")), ("helper", peer_token(api))]
        held.append(("helper", text_of(api, "helper-client-default", "token")))
        for agent, token in held:
            assert known.get((agent, sha(token)), world.moment) <= world.moment - LEAD, f"{agent} knows the token"

    for agent in ("poet", "helper"):
        for digest in listed(api, agent):
            known[agent, digest] = world.moment - LEAD
    api.listeners.append(look)


def peer_token(api):
    return text_of(api, "poet-auth", "peer.shop.helper")


async def test_client_token_rotation_keeps_the_old_one_until_expiry(pair, api):
    first = text_of(api, "poet-client-default", "token")
    watch_every_step(pair, api)

    await pair.later(30 * DAY)
    following = text_of(api, "poet-client-default", "next")
    assert text_of(api, "poet-client-default", "token") == first, "the next token is not in use yet"
    assert opens(api, "poet", following)
    await pair.later(LEAD)
    assert text_of(api, "poet-client-default", "token") == following
    assert "next" not in api.find("Secret", "poet-client-default")["data"]
    assert opens(api, "poet", first), "a caller with the earlier token is accepted"
    await pair.later(3 * DAY)
    assert not opens(api, "poet", first)
    assert opens(api, "poet", following)


async def test_peer_token_rotation_reaches_the_callee_first(pair, api):
    """The callee knows a peer's new token before the caller uses it."""
    first = peer_token(api)
    watch_every_step(pair, api)

    await pair.later(30 * DAY)
    following = text_of(api, "poet-auth", "next.shop.helper")
    assert peer_token(api) == first
    assert opens(api, "helper", following)
    await pair.later(LEAD)
    assert peer_token(api) == following
    assert opens(api, "helper", first)
    await pair.later(3 * DAY)
    assert not opens(api, "helper", first)


async def test_peer_token_lifetime_is_set_by_the_callee(world, api, objects):
    api.put(objects.agent("helper", auth={"tokenTTL": "1h", "overlap": "10m"}))
    api.put(objects.agent("poet", peers=[{"name": "helper"}]))
    await world.start()
    await world.settle()
    first = peer_token(api)
    await world.later(HOUR)
    await world.later(LEAD)
    assert peer_token(api) != first
    assert listed(api, "helper")[sha(peer_token(api))] == "2026-03-01T14:10:00Z"
    assert text_of(api, "poet-client-default", "token"), "the clients of the caller keep their token"


async def test_rotation_writes_nothing_between_phases_or_on_restart(pair, api, make_world):
    world, moment = pair, pair.moment
    for phase in (0, 30 * DAY, LEAD, 3 * DAY):
        world.moment = moment
        await world.later(phase)
        moment = world.moment
        await world.stop()
        api.writes.clear()
        world = make_world(api)
        world.moment = moment
        await world.start()
        await world.settle()
        assert api.writes == [], f"after {phase} seconds"
        assert world.soonest() <= 30 * DAY, "the next reconcile is scheduled"
    await world.stop()


async def test_shorter_ttl_rotates_older_tokens_without_refusals(pair, api, objects):
    watch_every_step(pair, api)
    await pair.later(2 * DAY)
    first = text_of(api, "poet-client-default", "token")
    api.put(objects.agent("poet", peers=[{"name": "helper"}], auth={"tokenTTL": "24h", "overlap": "1h"}))
    await pair.settle()
    assert opens(api, "poet", first)
    await pair.later(LEAD)
    assert text_of(api, "poet-client-default", "token") != first
    assert opens(api, "poet", first)
    await pair.later(HOUR)
    assert not opens(api, "poet", first)


WISHES = [
    pytest.param("poet-client-default", "token", "poet", id="a client's"),
    pytest.param("poet-auth", "peer.shop.helper", "helper", id="those that an agent uses"),
]


@pytest.mark.parametrize(("secret", "key", "callee"), WISHES)
async def test_rotation_request_starts_at_once_and_runs_once(pair, api, secret, key, callee):
    first = text_of(api, secret, key)
    watch_every_step(pair, api)
    api.edit("Secret", secret, {"metadata": {"annotations": {"fleetwright.dev/rotate": "leaked"}}})
    await pair.settle()
    await pair.later(LEAD)
    second = text_of(api, secret, key)
    assert second != first
    assert opens(api, callee, first)
    await pair.later(3 * DAY)
    assert not opens(api, callee, first)
    assert text_of(api, secret, key) == second


HARMS = [
    pytest.param(lambda api, name: api.remove("Secret", name), id="it is deleted"),
    pytest.param(lambda api, name: put_token(api, name, "short"), id="its token is damaged"),
    pytest.param(lambda api, name: put_token(api, name, "y" * 43), id="somebody puts another token there"),
    pytest.param(
        lambda api, name: api.edit("Secret", name, {"metadata": {"annotations": {"fleetwright.dev/credentials": "{"}}}),
        id="its record is damaged",
    ),
]


def put_token(api, name, text):
    api.edit("Secret", name, {"data": {"token": base64.b64encode(text.encode()).decode()}})


@pytest.mark.parametrize("harm", HARMS)
async def test_client_secret_that_is_damaged_gets_a_valid_token(pair, api, harm):
    """A damaged client Secret receives a token that is accepted, and forged tokens are refused."""
    first = text_of(api, "poet-client-default", "token")
    harm(api, "poet-client-default")
    await pair.settle()
    now = text_of(api, "poet-client-default", "token")
    assert opens(api, "poet", now)
    assert not opens(api, "poet", "y" * 43)
    assert not opens(api, "poet", "short")
    assert (now == first) == (harm is HARMS[3].values[0]), "a token without its record stays"
    assert len(listed(api, "poet")) == 1


async def test_deleted_auth_secret_keeps_client_and_renews_peer_tokens(pair, api):
    """A deleted callers list returns with the same client tokens and a new token for the peer."""
    token, edge = text_of(api, "poet-client-default", "token"), peer_token(api)
    api.remove("Secret", "poet-auth")
    await pair.settle()
    assert text_of(api, "poet-client-default", "token") == token
    assert opens(api, "poet", token)
    assert peer_token(api) != edge
    assert opens(api, "helper", peer_token(api))
    assert not opens(api, "helper", edge)


async def test_secret_without_a_record_keeps_its_token(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    token = text_of(api, "poet-client-default", "token")
    annotations = api.find("Secret", "poet-client-default")["metadata"]["annotations"]
    api.edit("Secret", "poet-client-default", {"metadata": {"annotations": dict.fromkeys(annotations)}})
    await world.settle()
    assert text_of(api, "poet-client-default", "token") == token
    assert "fleetwright.dev/expires" in api.find("Secret", "poet-client-default")["metadata"]["annotations"]


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "done, and the answer lost"])
async def test_rotation_survives_a_fault_at_any_write(objects, make_world, api, lost):
    """A fault at any write of a rotation refuses no caller and leads to the same result."""

    async def rotate(spoilt):
        fresh = type(api)()
        fresh.put(objects.agent("helper"))
        fresh.put(objects.agent("poet", peers=[{"name": "helper"}]))
        world = make_world(fresh)
        await world.start()
        await world.settle()
        fresh.writes.clear()
        watch_every_step(world, fresh)
        if lost:
            fresh.lose = lambda number, what: number == spoilt
        else:
            fresh.fault = lambda number, what: TimeoutError("no answer") if number == spoilt else None
        for pause in (30 * DAY, LEAD, 3 * DAY):
            await world.later(pause)
        await world.stop()
        return len(fresh.writes), {name: sorted(listed(fresh, name).values()) for name in ("poet", "helper")}

    count, wanted = await rotate(spoilt=-1)
    for number in range(count):
        assert (await rotate(spoilt=number))[1] == wanted, f"after a fault at write {number}"


async def test_token_expiry_is_in_status_and_metric_without_the_token(pair, api):
    token = text_of(api, "poet-client-default", "token")
    status = api.find("Agent", "poet")["status"]
    assert status["credentials"] == {"expires": "2026-04-03T12:00:00Z"}
    value = pair.manager.metrics.registry.get_sample_value
    labels = {"namespace": "shop", "agent": "poet", "client": "default"}
    assert value("fleetwright_credential_expiry_timestamp_seconds", labels) == pair.moment + 33 * DAY
    assert token not in json.dumps(status)
    assert token not in str(api.find("Secret", "poet-client-default")["metadata"])


async def test_agent_without_clients_and_peers_has_no_credentials(world, api, objects):
    api.put(objects.agent(auth={"clients": []}))
    await world.start()
    await world.settle()
    assert "credentials" not in api.find("Agent", "poet")["status"]
    assert listed(api, "poet") == {}


BAD = [
    pytest.param(
        {"tokenTTL": "soon"}, "spec.auth.tokenTTL: 'soon' is not a duration", id="a life that is not a duration"
    ),
    pytest.param({"tokenTTL": "5s"}, "spec.auth.tokenTTL is 5s and must be at least 60s", id="a life too short"),
    pytest.param(
        {"overlap": "1000h"}, "spec.auth.overlap must not be longer than spec.auth.tokenTTL", id="an endless overlap"
    ),
    pytest.param(
        {"tokenTTL": "1h", "overlap": "2h"},
        "spec.auth.overlap must not be longer than spec.auth.tokenTTL",
        id="a longer overlap",
    ),
]


@pytest.mark.parametrize(("auth", "says"), BAD)
async def test_invalid_lifetimes_are_refused_and_tokens_kept(world, api, objects, auth, says):
    api.put(objects.agent(auth=auth))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, reason) == ("False", "InvalidDuration")
    assert message.startswith(says)
    assert opens(api, "poet", text_of(api, "poet-client-default", "token"))
