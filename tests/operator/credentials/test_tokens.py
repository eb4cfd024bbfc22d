"""The tokens that calls between agents require."""

import pytest

from fleetwright_operator.build.auth_files import Tokens, callers_document
from fleetwright_operator.credentials.rotating_token import RotatingToken, Token
from fleetwright_operator.credentials.tokens import is_token, mint_token


def test_mint_token_returns_unique_valid_tokens():
    assert is_token(mint_token())
    assert mint_token() != mint_token()


@pytest.mark.parametrize("text", [None, "", "short", "x" * 42, "x" * 42 + " ", "ü" * 43])
def test_is_token_rejects_damaged_text(text):
    assert not is_token(text)


def test_callers_document_contains_digests_only():
    held = {name: RotatingToken(Token(f"t{name}")) for name in ("a", "b", "p")}
    document = callers_document(Tokens(clients={"b": held["b"], "a": held["a"]}, callers={"shop/poet": held["p"]}))
    assert [(each["kind"], each["name"]) for each in document["callers"]] == [
        ("client", "a"),
        ("client", "b"),
        ("agent", "shop/poet"),
    ]
    assert not any(token in str(document) for token in ("ta'", "tb'", "tp'"))
    assert all(len(each["sha256"]) == 64 for each in document["callers"])


async def test_token_is_stable_and_replaced_if_damaged(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    first = api.find("Secret", "poet-client-default")["data"]["token"]
    api.edit("Agent", "poet", {"spec": {"instructions": "Other."}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] == first

    api.edit("Secret", "poet-client-default", {"data": {"token": "IQ=="}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] not in {first, "IQ=="}


async def test_deleted_token_is_not_restored_by_a_concurrent_write(world, api, objects):
    """A token deleted while another child is written is not put back."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    first = api.find("Secret", "poet-client-default")["data"]["token"]

    def taken_away(_: int, what: str) -> None:
        if "ConfigMap" in what and api.has("Secret", "poet-client-default"):
            api.fault = lambda *_: None
            api.remove("Secret", "poet-client-default")

    api.fault = taken_away
    api.edit("Agent", "poet", {"spec": {"instructions": "Other."}})
    await world.settle()
    assert api.find("Secret", "poet-client-default")["data"]["token"] != first


async def test_removed_client_loses_its_secret(world, api, objects):
    api.put(objects.agent(auth={"clients": [{"name": "web"}, {"name": "ops"}]}))
    await world.start()
    await world.settle()
    assert api.has("Secret", "poet-client-web")
    api.put(objects.agent(auth={"clients": [{"name": "ops"}]}))
    await world.settle()
    assert not api.has("Secret", "poet-client-web")
    assert api.has("Secret", "poet-client-ops")
