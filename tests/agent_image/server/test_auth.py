"""Authentication, and the delay until a change of the callers takes effect."""

import asyncio
import hashlib
import itertools
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.datastructures import Headers

from fleetwright_a2a.authentication import AuthenticationFailure
from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.callers import Caller, CallerKind, Callers
from fleetwright_agent.server.auth import parse_callers, recognise
from fleetwright_agent.telemetry.metrics import Metrics

Open = Callable[..., Any]
_MOMENT = 0.06
"""Slightly longer than the interval at which the agent checks the callers file."""
CALL = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}


def entry(owner: str, token: str) -> dict[str, str]:
    kind, _, name = owner.partition(":")
    return {"kind": kind, "name": name, "sha256": hashlib.sha256(token.encode()).hexdigest()}


@pytest.mark.parametrize(
    ("headers", "reason", "challenge"),
    [
        pytest.param([], "missing", 'Bearer realm="echo"', id="no credential"),
        pytest.param(
            [("Authorization", "Bearer wrong")],
            "unknown",
            'Bearer realm="echo", error="invalid_token"',
            id="a wrong one",
        ),
        pytest.param(
            [("Authorization", "Basic dG9rZW4=")],
            "malformed",
            'Bearer realm="echo", error="invalid_token"',
            id="another scheme",
        ),
        pytest.param(
            [("Authorization", "Bearer token-of-default"), ("Authorization", "Bearer token-of-other")],
            "ambiguous",
            'Bearer realm="echo", error="invalid_token"',
            id="two callers in one request",
        ),
        pytest.param(
            [("Authorization", "Bearer token-of-default, Bearer token-of-other")],
            "malformed",
            'Bearer realm="echo", error="invalid_token"',
            id="two callers in one header",
        ),
    ],
)
async def test_r11_invalid_credentials_are_refused(
    open_door: Open, headers: list[tuple[str, str]], reason: str, challenge: str
) -> None:
    metrics = Metrics(CollectorRegistry())
    door = await open_door(metrics=metrics)
    async with door.http(None) as http:
        response = await http.post("/a2a", json=CALL, headers=[("A2A-Version", "1.0"), *headers])
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == challenge
    count = metrics.registry.get_sample_value("fleetwright_auth_failures_total", {"reason": reason})
    assert count == 1


@pytest.mark.parametrize("path", ["/", "/a2a", "/a2a/", "/metrics", "/docs", "/.well-known/", "/.well-known/other"])
async def test_auth_is_required_for_everything_but_the_cards(open_door: Open, path: str) -> None:
    door = await open_door()
    async with door.http(None) as http:
        assert (await http.get(path)).status_code == 401
        assert (await http.post(path, json=CALL)).status_code == 401
        assert (await http.post("/.well-known/agent.json", json=CALL)).status_code == 401
        assert (await http.get("/.well-known/agent.json")).status_code == 200


@pytest.mark.parametrize(
    "callers",
    [
        pytest.param(None, id="none mounted"),
        pytest.param({"version": 1, "callers": []}, id="an empty list"),
    ],
)
async def test_auth_without_callers_refuses_all_requests(open_door: Open, mounted: Any, callers: Any) -> None:
    """No setting may disable authentication, because the agent listens on every address of its pod."""
    if callers is None:
        mounted.layout.callers_file.unlink()
    else:
        mounted.write(mounted.layout.callers_file, callers)
    door = await open_door()
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    async with door.http(None) as http, door.ops() as ops:
        for headers in ({}, {"Authorization": "Bearer token-of-default"}, {"Authorization": "Bearer"}):
            for path in ("/a2a", "/a2a/", "/a2a/message:send", "/a2a/tasks", "/admin/memory"):
                for verb in ("GET", "POST", "DELETE", "OPTIONS"):
                    answer = await http.request(verb, path, json={"message": said}, headers=headers)
                    assert answer.status_code == 401, (verb, path, answer.text)
        assert (await http.get("/.well-known/agent-card.json")).status_code == 200
        assert (await ops.get("/readyz")).status_code == (503 if callers is None else 200)
    assert door.turn.requests == []


async def test_r11_token_changes_apply_promptly(open_door: Open, mounted: Any) -> None:
    """A new token is accepted from the next request; a removed one is refused after a moment."""
    door = await open_door()
    callers = mounted.layout.callers_file

    async def status(token: str) -> int:
        async with door.http(None) as http:
            headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
            code: int = (await http.post("/a2a", json=CALL, headers=headers)).status_code
            return code

    assert await status("token-of-default") == 200
    # Update the files as the kubelet does: write a new folder, and replace the symlink by one rename.
    folder, swapped = callers.parent, callers.parent / "..data"
    for name, owners in [("one", ["token-of-default", "new"]), ("two", ["new"])]:
        version = folder / f"..{name}"
        mounted.write(version / "callers.json", {"version": 1, "callers": [entry("client:default", t) for t in owners]})
        link = folder / "..data_tmp"
        link.symlink_to(version.name)
        os.replace(link, swapped)  # noqa: PTH105 - the very call the kubelet makes
        if not callers.is_symlink():
            callers.unlink()
            callers.symlink_to("..data/callers.json")
        assert await status("new") == 200
        await asyncio.sleep(_MOMENT)
        assert await status("token-of-default") == (200 if name == "one" else 401)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "callers.json cannot be read: No such file or directory", id="a missing list"),
        pytest.param("{", "callers.json is not valid: it is not JSON", id="a torn list"),
        pytest.param('{"version": 2}', "callers.json is not valid: check version", id="a list of another version"),
        pytest.param(
            '{"version": 1, "callers": [{"name": "x", "kind": "client", "sha256": "short"}]}',
            "callers.json is not valid: check callers.0.sha256",
            id="a digest that is none",
        ),
    ],
)
async def test_auth_invalid_callers_file_denies_all_and_is_unready(
    open_door: Open, mounted: Any, content: str | None, reason: str
) -> None:
    door = await open_door()
    good = mounted.layout.callers_file.read_text()
    replace(mounted.layout.callers_file, content)
    await asyncio.sleep(_MOMENT)
    async with door.http() as http, door.ops() as ops:
        assert (await http.post("/a2a", json=CALL)).status_code == 401
        ready = await ops.get("/readyz")
        assert (ready.status_code, ready.text) == (503, f"{reason}\n")
        replace(mounted.layout.callers_file, good)
        assert (await http.post("/a2a", json=CALL)).status_code == 200
        assert (await ops.get("/readyz")).status_code == 200


def replace(path: Path, content: str | None) -> None:
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_text(content)


def test_parse_callers_refuses_a_shared_token_without_its_digest() -> None:
    digest = hashlib.sha256(b"t").hexdigest()
    one = {"kind": "client", "name": "a", "sha256": digest}
    raw = str({"version": 1, "callers": [one, one | {"name": "b"}]}).replace("'", '"').encode()
    with pytest.raises(ValueError, match="client:b and client:a hold the same token") as caught:
        parse_callers(raw)
    assert digest not in str(caught.value)


def test_parse_callers_accepts_two_tokens_of_one_caller() -> None:
    raw = json.dumps({"version": 1, "callers": [entry("client:a", "old"), entry("client:a", "new")]}).encode()
    assert len(parse_callers(raw).callers) == 2


NOON = 1_772_366_400  # 2026-03-01T12:00:00Z
ENDS = [
    pytest.param("2026-03-01T12:00:01Z", 200, id="a token that ends in a second opens"),
    pytest.param("2026-03-01T12:00:00Z", 401, id="a token that ends now does not"),
    pytest.param("2026-03-01T14:00:01+02:00", 200, id="the end counts in any time zone"),
    pytest.param(None, 200, id="a token without an end opens for ever"),
]


@pytest.mark.parametrize(("expires", "status"), ENDS)
async def test_r11_token_is_refused_after_its_expiry(
    open_door: Open, mounted: Any, expires: str | None, status: int
) -> None:
    end = {"expires": expires} if expires else {}
    callers = [entry("client:default", "token-of-default") | end, entry("client:default", "new")]
    mounted.write(mounted.layout.callers_file, {"version": 1, "callers": callers})
    metrics = Metrics(CollectorRegistry())
    door = await open_door(clock=Clock(now_ns=lambda: NOON * 10**9), metrics=metrics)
    async with door.http() as http:
        assert (await http.post("/a2a", json=CALL)).status_code == status
        new = await http.post("/a2a", json=CALL, headers={"Authorization": "Bearer new"})
        assert new.status_code == 200, "each token of a caller expires on its own"
    ended = metrics.registry.get_sample_value("fleetwright_auth_failures_total", {"reason": "expired"})
    assert ended == (1 if status == 401 else None)


@pytest.mark.parametrize("expires", ["tomorrow", "2026-03-01T12:00:00", {}], ids=repr)
def test_r11_parse_callers_refuses_an_invalid_expiry(expires: Any) -> None:
    raw = json.dumps({"version": 1, "callers": [entry("client:a", "t") | {"expires": expires}]}).encode()
    with pytest.raises(ValueError, match=r"check callers\.0\.expires"):
        parse_callers(raw)


KEYS = [
    pytest.param([("X-API-Key", "token-of-default")], 200, None, id="a client's token as a key"),
    pytest.param([("Authorization", "Bearer token-of-default")], 200, None, id="the same token as a bearer"),
    pytest.param([("X-API-Key", "token-of-peer")], 401, "unknown", id="an agent's token is no key"),
    pytest.param([("X-API-Key", "wrong")], 401, "unknown", id="a wrong key"),
    pytest.param([("X-API-Key", "")], 401, "malformed", id="an empty key"),
    pytest.param([("X-API-Key", "x" * 9000)], 401, "malformed", id="an endless key"),
    pytest.param([("X-API-Key", "token-of-default"), ("X-API-Key", "token-of-other")], 401, "ambiguous", id="two keys"),
    pytest.param(
        [("X-API-Key", "token-of-default"), ("Authorization", "Bearer token-of-other")],
        401,
        "ambiguous",
        id="a key and a bearer",
    ),
]


@pytest.mark.parametrize(("headers", "status", "reason"), KEYS)
async def test_api_key_header_is_checked_if_accepted(
    open_door: Open, mounted: Any, documents: Any, headers: list[tuple[str, str]], status: int, reason: str | None
) -> None:
    mounted.write(mounted.layout.config_file, documents(acceptApiKey=True))
    metrics = Metrics(CollectorRegistry())
    door = await open_door(metrics=metrics)
    async with door.http(None) as http:
        answer = await http.post("/a2a", json=CALL, headers=[("A2A-Version", "1.0"), *headers])
    assert answer.status_code == status, answer.text
    if reason:
        assert metrics.registry.get_sample_value("fleetwright_auth_failures_total", {"reason": reason}) == 1
        assert "token-of" not in answer.text


async def test_auth_challenge_names_every_accepted_scheme(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(acceptApiKey=True))
    door = await open_door()
    async with door.http(None) as http:
        answer = await http.post("/a2a", json=CALL)
    assert answer.headers["www-authenticate"] == 'Bearer realm="echo", ApiKey realm="echo", header="X-API-Key"'


class Signed:
    """An alternative authenticator, such as one that verifies signed tokens."""

    schemes = ('Signed realm="elsewhere"',)

    def identify(self, headers: Headers) -> Caller | AuthenticationFailure:
        if headers.get("authorization") != "Signed by-somebody-we-trust":
            return AuthenticationFailure("unknown", "The signature is not accepted.")
        return Caller(name="team/signed", kind=CallerKind.AGENT, sha256="0" * 64)


async def test_custom_identity_replaces_bearer_tokens(open_door: Open) -> None:
    door = await open_door(identity=Signed())
    async with door.http() as http:
        refused = await http.post("/a2a", json=CALL)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (
            401,
            'Signed realm="elsewhere", error="invalid_token"',
        )
        http.headers["Authorization"] = "Signed by-somebody-we-trust"
        said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
        sent = await http.post("/a2a", json={**CALL, "method": "SendMessage", "params": {"message": said}})
        assert sent.status_code == 200
    assert door.turn is not None
    assert [request.owner for request in door.turn.requests] == ["agent:team/signed"]


async def test_api_key_header_is_ignored_if_not_accepted(open_door: Open) -> None:
    door = await open_door()
    async with door.http(None) as http:
        key = {"A2A-Version": "1.0", "X-API-Key": "token-of-default"}
        assert (await http.post("/a2a", json=CALL, headers=key)).status_code == 401
        both = {**key, "Authorization": "Bearer token-of-other"}
        assert (await http.post("/a2a", json=CALL, headers=both)).status_code == 200


class Watched(str):
    """A digest that records comparisons with `==`, which are not constant-time."""

    __slots__ = ()
    compared: list[object] = []  # noqa: RUF012 - of all of them together

    def __eq__(self, other: object) -> bool:
        self.compared.append(other)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        self.compared.append(other)
        return str.__ne__(self, other)

    __hash__ = str.__hash__


def listed(*tokens: str, digest: type[str] = str) -> Callers:
    """Return the callers of these tokens, named after the tokens."""
    held = [
        Caller.model_construct(
            kind=CallerKind.CLIENT, name=token, sha256=digest(hashlib.sha256(token.encode()).hexdigest()), expires=None
        )
        for token in tokens
    ]
    return Callers.model_construct(version=1, callers=tuple(held))


def test_r11_recognise_does_not_compare_digests_with_early_exit() -> None:
    callers = listed("first", "second", digest=Watched)
    found = [recognise(token, callers) for token in ("first", "second", "third")]
    assert [caller and caller.name for caller in found] == ["first", "second", None]
    assert Watched.compared == []


def test_parse_callers_refuses_a_digest_of_another_length() -> None:
    for text in ("ab", "0" * 63, "0" * 65):
        document = {"version": 1, "callers": [entry("client:a", "x") | {"sha256": text}]}
        with pytest.raises(ValueError, match="sha256"):
            parse_callers(json.dumps(document).encode())


def test_r11_recognise_takes_equal_time_for_every_position() -> None:
    callers = listed(*(f"token {number}" for number in range(2000)))
    taken: dict[str, list[float]] = {"token 0": [], "token 1999": [], "nobody": []}
    for _, token in itertools.product(range(15), taken):  # interleaved, so that a disturbance affects all tokens
        begin = time.perf_counter()
        recognise(token, callers)
        taken[token].append(time.perf_counter() - begin)
    medians = [statistics.median(each) for each in taken.values()]
    assert max(medians) < 5 * min(medians), "an early exit would make the first token a thousand times faster"
