"""Signed cards on a real API server, with only the rights of the chart."""

import base64
import json

from e2e.cluster.deploy import SYSTEM

KEYS = "fleetwright-operator-card-keys"


def card_of(space, agent):
    return json.loads(space.get("ConfigMap", f"{agent}-card")["data"]["agent-card.json"])


def signers(card):
    protected = [signature["protected"] for signature in card.get("signatures", ())]
    return [json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))["kid"] for text in protected]


def published(space):
    key_set = space.admin.find("ConfigMap", SYSTEM, KEYS)
    return [key["kid"] for key in json.loads(key_set["data"]["jwks.json"])["keys"]] if key_set else []


def ring_of(space):
    secret = space.admin.find("Secret", SYSTEM, KEYS)
    return json.loads(base64.b64decode(secret["data"]["keys.json"]))["keys"]


def agree(space, agent):
    """Return True if card, status and key set name the same keys."""
    said = (space.find("Agent", agent) or {}).get("status", {}).get("card", {}).get("signedBy")
    return bool(said) and said == signers(card_of(space, agent)) == published(space)


def test_agent_card_signature_uses_the_published_keys(space, kubelet, operator):
    """The published key signs a card; a rotated key re-signs it and annotates its pod."""
    space.agent("poet")
    pod = kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    space.eventually(lambda: agree(space, "poet"), "the card is signed")
    (first,) = published(space)
    before = space.get("Agent", "poet")["status"]
    refreshed = space.get("Pod", pod)["metadata"]["annotations"]["fleetwright.dev/refresh"]

    # A key of the maximum age gets a successor. Both sign during the overlap.
    aged = {"keys": [{**key, "iat": key["iat"] - 90 * 24 * 3600} for key in ring_of(space)]}
    write_ring(space, aged)
    space.eventually(lambda: len(published(space)) == 2 and agree(space, "poet"), "two keys sign")
    assert published(space)[1] == first
    space.eventually(
        lambda: space.get("Pod", pod)["metadata"]["annotations"]["fleetwright.dev/refresh"] != refreshed,
        "the pod is told to look again",
    )

    # After the overlap the old key is removed.
    write_ring(space, {"keys": [{**key, "iat": key["iat"] - 25 * 3600} for key in ring_of(space)]})
    space.eventually(lambda: len(published(space)) == 1 and agree(space, "poet"), "one key signs")
    assert published(space) != [first]
    after = space.get("Agent", "poet")["status"]
    assert after["revision"] == before["revision"]
    assert after["card"]["digest"] != before["card"]["digest"]
    space.wait("Agent", "poet", "Ready", "True")


def write_ring(space, ring):
    data = {"keys.json": base64.b64encode(json.dumps(ring).encode()).decode()}
    space.admin.merge("Secret", SYSTEM, KEYS, {"data": data})


def test_card_keys_deleted_or_damaged_are_replaced(space, operator):
    """New keys replace deleted or damaged ones, and every card is signed again."""
    space.agent("poet")
    space.eventually(lambda: agree(space, "poet"), "the card is signed")
    for lose in (
        lambda: space.admin.delete("Secret", SYSTEM, KEYS),
        lambda: space.admin.merge("Secret", SYSTEM, KEYS, {"data": {"keys.json": "bm90aGluZw=="}}),
    ):
        before = published(space)
        lose()
        space.eventually(
            lambda old=before: set(published(space)).isdisjoint(old) and agree(space, "poet"), "another key signs"
        )


def test_deleted_key_set_is_restored_unchanged(space, operator):
    space.agent("poet")
    space.eventually(lambda: agree(space, "poet"), "the card is signed")
    before = published(space)
    space.admin.delete("ConfigMap", SYSTEM, KEYS)
    space.eventually(lambda: published(space) == before, "the key set is back")


def test_edited_or_deleted_card_is_restored_unchanged(space, operator):
    space.agent("poet")
    space.eventually(lambda: agree(space, "poet"), "the card is signed")
    before = card_of(space, "poet")
    space.admin.merge("ConfigMap", space.name, "poet-card", {"data": {"agent-card.json": "{}"}})
    space.eventually(lambda: card_of(space, "poet") == before, "the card is as before")
    space.admin.delete("ConfigMap", space.name, "poet-card")
    space.eventually(lambda: space.find("ConfigMap", "poet-card"), "the card is back")
    assert card_of(space, "poet") == before


def test_namespaced_operator_needs_rights_on_its_own_keys_only(space, operator, another_operator):
    """An operator with card keys and no agents, because the other operator manages every namespace."""
    narrow = another_operator("narrow", namespaces=[space.name])
    narrow.start()
    try:
        keys = "narrow-operator-card-keys"
        space.eventually(lambda: space.admin.find("ConfigMap", SYSTEM, keys), "its keys are published")
        first = space.admin.find("Secret", SYSTEM, keys)["metadata"]["uid"]
        space.admin.delete("Secret", SYSTEM, keys)
        space.eventually(
            lambda: (
                (space.admin.find("Secret", SYSTEM, keys) or {}).get("metadata", {}).get("uid") not in {None, first}
            ),
            "a lost Secret is noticed",
        )
    finally:
        assert narrow.stop() == 0
    assert "forbidden" not in narrow.log.read_text().lower()


def test_pruned_revisions_do_not_change_the_card(space, operator):
    for number in range(5):
        space.agent("poet", instructions=f"Write {number}.")
        space.wait("Agent", "poet", "Programmed", "True")
    assert agree(space, "poet")
