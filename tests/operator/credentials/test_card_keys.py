"""The keys that sign cards: their rotation, their repair, and the effects on the agents."""

import base64
import json

import pytest

from fleetwright_operator.credentials.jws import DamagedKey, new_secret, signing_key
from fleetwright_operator.credentials.keyring import CardKey, key_set, next_change, read_ring, renew_ring, ring_text
from fleetwright_operator.credentials.rotation import Rotation

ROTATION = Rotation(ttl=1000, overlap=100)
SYSTEM, NAME = "fleetwright-system", "fleetwright-operator-card-keys"
DAY = 24 * 3600


def key(number: int, created: int) -> CardKey:
    secret = base64.urlsafe_b64encode(number.to_bytes(32, "big")).decode()
    return CardKey(signing_key(secret), secret, created)


OLD, NEW = key(1, 0), key(2, 1000)
TURNS = [
    pytest.param((), 500, [3], 1500, id="an empty ring gets a key"),
    pytest.param((OLD,), 999, [1], 1000, id="a young key stays alone"),
    pytest.param((OLD,), 1000, [3, 1], 1100, id="an old one gets a successor and signs beside it"),
    pytest.param((NEW, OLD), 1099, [2, 1], 1100, id="both sign during the overlap"),
    pytest.param((NEW, OLD), 1100, [2], 2000, id="after the overlap the old one goes"),
    pytest.param((NEW, OLD), 2000, [3, 2], 2100, id="never more than two, even where nobody looked for long"),
    pytest.param((key(1, 9999),), 500, [1], 1500, id="a key from the future is born now"),
]


@pytest.mark.parametrize(("ring", "now", "wanted", "changes"), TURNS)
def test_renew_ring_rotates_on_schedule(ring, now, wanted, changes):
    after = renew_ring(ring, now=now, rotation=ROTATION, new_secret=lambda: key(3, 0).secret)
    assert [each.key.kid for each in after] == [key(number, 0).key.kid for number in wanted]
    assert next_change(after, rotation=ROTATION) == changes
    again = renew_ring(
        after, now=changes - 1, rotation=ROTATION, new_secret=lambda: pytest.fail("nobody asked for a key")
    )
    assert again == after, "nothing changes before that time"


STORED = [
    pytest.param(ring_text((NEW, OLD)), [NEW, OLD], id="as it was written"),
    pytest.param(ring_text((OLD, NEW)), [NEW, OLD], id="in another order"),
    pytest.param("", [], id="nothing"),
    pytest.param("{", [], id="no JSON"),
    pytest.param('{"keys": 7}', [], id="no list"),
    pytest.param('{"keys": [7]}', [], id="a list of something else"),
    pytest.param('{"keys": [{"d": "AA", "iat": 1}, {"d": 7, "iat": 1}, {"iat": 1}]}', [], id="no private keys"),
    pytest.param(json.dumps({"keys": [{"d": OLD.secret, "iat": 0, "x": "tampered"}]}), [OLD], id="other coordinates"),
    pytest.param(json.dumps({"keys": [{"d": OLD.secret, "iat": "soon"}]}), [], id="a time that is none"),
]


@pytest.mark.parametrize(("text", "wanted"), STORED)
def test_read_ring_keeps_usable_keys_only(text, wanted):
    assert [(each.key.kid, each.created) for each in read_ring(text)] == [(e.key.kid, e.created) for e in wanted]


def test_key_set_contains_no_private_key():
    shown = json.loads(key_set((NEW, OLD)))["keys"]
    assert [set(each) for each in shown] == [{"alg", "crv", "kid", "kty", "use", "x", "y"}] * 2
    assert NEW.secret not in repr(NEW)
    assert NEW.secret not in repr(NEW.key)


@pytest.mark.parametrize("secret", ["", "AA", "!", "_" * 43, "A" * 43], ids=repr)
def test_signing_key_refuses_an_invalid_key_without_quoting_it(secret):
    with pytest.raises(DamagedKey) as caught:
        signing_key(secret)
    assert "not a private key on P-256" in str(caught.value)


def test_new_secret_returns_unique_keys():
    assert signing_key(new_secret()).kid != signing_key(new_secret()).kid


# The reconcile loop.


def served(api, agent="poet"):
    return json.loads(api.find("ConfigMap", f"{agent}-card")["data"]["agent-card.json"])


def shown_keys(api):
    keys = json.loads(api.find("ConfigMap", NAME, namespace=SYSTEM)["data"]["jwks.json"])["keys"]
    return [each["kid"] for each in keys]


def signers(card):
    protected = [signature["protected"] for signature in card["signatures"]]
    return [json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["kid"] for text in protected]


@pytest.fixture
async def poet(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    return world


async def test_agent_card_is_signed_when_first_written(poet, api):
    status = api.find("Agent", "poet")["status"]
    assert signers(served(api)) == status["card"]["signedBy"] == shown_keys(api)
    assert api.writes.count("apply ConfigMap poet-card") == 1


async def test_card_key_rotation_changes_cards_only(poet, api):
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": _labels(api)}})
    await poet.settle()
    first, revision = shown_keys(api), api.find("Agent", "poet")["status"]["revision"]
    refreshed = api.find("Pod", "p")["metadata"]["annotations"]
    deployment = api.find("Deployment", "poet")

    await poet.later(90 * DAY)
    assert len(shown_keys(api)) == 2
    assert signers(served(api)) == shown_keys(api) == api.find("Agent", "poet")["status"]["card"]["signedBy"]
    assert shown_keys(api)[1:] == first

    await poet.later(DAY)
    assert signers(served(api)) == shown_keys(api) == api.find("Agent", "poet")["status"]["card"]["signedBy"]
    assert first[0] not in shown_keys(api)
    assert api.find("Agent", "poet")["status"]["revision"] == revision
    assert api.find("Deployment", "poet") == deployment
    assert api.find("Pod", "p")["metadata"]["annotations"] != refreshed, "the kubelet reads the card again"


def _labels(api):
    return api.find("Deployment", "poet")["spec"]["template"]["metadata"]["labels"]


DAMAGES = [
    pytest.param(lambda api: api.remove("Secret", NAME, namespace=SYSTEM), id="the Secret is deleted"),
    pytest.param(
        lambda api: api.edit("Secret", NAME, {"data": {"keys.json": "e30="}}, namespace=SYSTEM), id="it holds no key"
    ),
    pytest.param(
        lambda api: api.edit("Secret", NAME, {"data": {"keys.json": "!"}}, namespace=SYSTEM), id="it is not even text"
    ),
]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_lost_card_keys_are_replaced_and_logged(poet, api, damage, caplog):
    caplog.set_level("INFO")
    before = shown_keys(api)
    poet.moment += 1
    api.writes.clear()
    damage(api)
    await poet.settle()
    assert api.writes.count("apply ConfigMap poet-card") == 1, "no unsigned card is written in between"
    assert signers(served(api)) == shown_keys(api)
    assert set(before).isdisjoint(shown_keys(api))
    (told,) = (record for record in caplog.records if record.message == "signing keys changed")
    assert told.why in {"there were none", "the stored keys are damaged"}


async def test_key_set_is_restored_after_edit_or_deletion(poet, api):
    before = shown_keys(api)
    api.edit("ConfigMap", NAME, {"data": {"jwks.json": "{}"}}, namespace=SYSTEM)
    await poet.settle()
    assert shown_keys(api) == before
    api.remove("ConfigMap", NAME, namespace=SYSTEM)
    await poet.settle()
    assert shown_keys(api) == before


async def test_restart_between_rotations_writes_nothing(poet, api, make_world):
    await poet.stop()
    api.writes.clear()
    another = make_world(api)
    another.moment = poet.moment + DAY
    await another.start()
    await another.settle()
    await another.stop()
    assert api.writes == []


async def test_card_keys_missing_from_a_stale_list_are_read_directly(poet, api, make_world):
    """Keys that a stale list omits still sign the first card."""
    before = served(api)
    await poet.stop()
    api.writes.clear()
    api.gets.clear()
    api.unlisted = {("Secret", SYSTEM, NAME), ("ConfigMap", SYSTEM, NAME), ("ConfigMap", "shop", "poet-card")}
    another = make_world(api)
    await another.start()
    await another.settle()
    await another.stop()
    assert served(api) == before
    assert api.writes == []
    looked = [what for what in api.gets if what.endswith(NAME)]
    assert looked == [f"Secret {NAME}", f"ConfigMap {NAME}"], "each is read once and then cached"


async def test_card_stays_unsigned_until_its_keys_can_be_stored(world, api, objects):
    api.fault = lambda number, what: TimeoutError("no answer") if what.endswith(NAME) else None
    api.put(objects.agent())
    await world.start()
    await world.until(lambda: world.conditions("Agent", "poet").get("Programmed", ("",))[0] == "True")
    assert "signatures" not in served(api)
    api.fault = lambda number, what: None
    await world.until(lambda: "signatures" in served(api))
    await world.settle()
    assert signers(served(api)) == api.find("Agent", "poet")["status"]["card"]["signedBy"]
