"""Tokens of the gateway at the A2A port: who the caller is, what is refused, and rotated keys."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import jwt
import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.gateway_tokens import (
    AGENT,
    ANNA,
    CALL,
    DELEGATION,
    ISSUER,
    KEY,
    LEAD_FOR_ANNA,
    UID,
    Key,
    build_key_file,
    moment_in,
    sign_delegation,
)
from tests.support.agent.operator_client import TOKEN, Operator, operator_document
from tests.support.waiting import within

from fleetwright_a2a.authentication import AuthenticationFailure
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.actors import Actor
from fleetwright_a2a.tokens.pair_token import PairTokenClaims
from fleetwright_agent.config.callers import is_client
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, TurnRequest
from fleetwright_agent.server.gateway_tokens import (
    GatewayCaller,
    GatewayTokens,
    TrustedGateway,
    owner_of,
    parse_gateway_keys,
)
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.telemetry.metrics import Metrics

Open = Callable[..., Any]
HIDDEN = {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}


OTHER = Key("second")


@pytest.fixture(autouse=True)
def mounted_keys(mounted: Any) -> None:
    mounted.write(mounted.layout.gateway_file, build_key_file(KEY))
    return


async def ask(door: Any, token: str, body: dict[str, Any] = CALL) -> Any:
    async with door.http(None) as http:
        return await http.post("/a2a", json=body, headers={"Authorization": f"Bearer {token}"})


async def send(door: Any, token: str) -> str:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
    answer = await ask(door, token, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["result"]["task"]["id"])


@pytest.mark.parametrize(
    ("act", "sub", "owner"),
    [
        pytest.param(AGENT, None, "agent:team/lead", id="an agent on its own behalf"),
        pytest.param(ANNA, None, "user:anna", id="a person"),
        pytest.param({**AGENT, "act": ANNA}, "user:anna", "user:anna via agent:team/lead", id="an agent for a person"),
    ],
)
async def test_forwarded_caller_owns_what_it_creates(
    open_door: Open, act: dict[str, Any], sub: str | None, owner: str
) -> None:
    door = await open_door()
    await send(door, KEY.token(act, sub=sub))
    assert door.turn.requests[0].owner == owner


async def test_tasks_are_isolated_between_a_person_and_an_agent_that_acts_for_the_person(open_door: Open) -> None:
    door = await open_door()
    task = await send(door, KEY.token({**AGENT, "act": ANNA}, sub="user:anna"))
    for other in (KEY.token(ANNA), KEY.token(AGENT)):
        answer = await ask(door, other, {**HIDDEN, "params": {"id": task}})
        assert answer.json()["error"]["code"] == -32001


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda: KEY.token(AGENT, aud="another-uid"), id="for another agent"),
        pytest.param(lambda: KEY.token(AGENT, aud=[UID, "another-uid"]), id="for two agents"),
        pytest.param(lambda: KEY.token(AGENT, iss="http://elsewhere"), id="of another issuer"),
        pytest.param(lambda: KEY.token(AGENT, iat=moment_in(-400), exp=moment_in(-200)), id="expired"),
        pytest.param(lambda: KEY.token(AGENT, iat=moment_in(100), exp=moment_in(160)), id="not valid yet"),
        pytest.param(lambda: KEY.token(AGENT, exp=moment_in(3600)), id="for an hour"),
        pytest.param(lambda: OTHER.token(AGENT), id="signed with an unknown key"),
        pytest.param(
            lambda: OTHER.token(AGENT, header={"kid": "first"}), id="signed with another key of the same name"
        ),
        pytest.param(lambda: KEY.token(AGENT, header={"typ": "JWT"}), id="of another type"),
        pytest.param(lambda: KEY.token(AGENT, client_id="agent:team/other"), id="of another client than the actor"),
        pytest.param(lambda: KEY.token(ANNA, sub="user:boss"), id="of a person who acts for another"),
        pytest.param(lambda: KEY.token({"sub": "agent:team", "uid": "u"}), id="of an agent without a namespace"),
        pytest.param(lambda: KEY.token({"sub": "client:default", "uid": ""}), id="of a client of the agent"),
        pytest.param(lambda: KEY.token({"sub": "user:", "uid": ""}), id="of a person without a name"),
        pytest.param(
            lambda: jwt.encode(
                {"sub": "user:anna"}, "k" * 32, algorithm="HS256", headers={"typ": "at+jwt", "kid": "first"}
            ),
            id="with a symmetric signature",
        ),
        pytest.param(
            lambda: "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0Iiwia2lkIjoiZmlyc3QifQ.e30.", id="without a signature"
        ),
        pytest.param(lambda: "eyJ" + "." * 2, id="that is empty"),
    ],
)
async def test_token_of_the_gateway_is_refused(open_door: Open, forge: Callable[[], str]) -> None:
    metrics = Metrics(CollectorRegistry())
    door = await open_door(metrics=metrics)
    answer = await ask(door, forge())
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="echo", error="invalid_token"'
    assert metrics.registry.get_sample_value("fleetwright_auth_failures_total", {"reason": "gateway"}) == 1


async def test_rotated_keys_are_accepted_without_a_restart(open_door: Open, mounted: Any) -> None:
    door = await open_door()
    assert (await ask(door, KEY.token(AGENT))).status_code == 200
    mounted.write(mounted.layout.gateway_file, build_key_file(OTHER, KEY))
    assert (await ask(door, OTHER.token(AGENT))).status_code == 200
    mounted.write(mounted.layout.gateway_file, build_key_file(OTHER))
    assert (await ask(door, OTHER.token(ANNA))).status_code == 200
    assert (await ask(door, KEY.token(ANNA))).status_code == 401


def test_flood_of_unknown_keys_parses_the_key_file_once(mounted: Any) -> None:
    """Each unknown key id makes the agent check the file for rotated keys. The check must stay cheap."""
    parsed = []

    def parse(raw: bytes) -> TrustedGateway:
        parsed.append(raw)
        return parse_gateway_keys(raw)

    tokens = GatewayTokens(FileWatcher(mounted.layout.gateway_file, parse), addresses=tuple, clock=Clock())
    for count in range(200):
        found = tokens.identify(KEY.token(AGENT, header={"kid": f"unknown-{count}"}))
        assert isinstance(found, AuthenticationFailure)
    assert isinstance(tokens.identify(KEY.token(AGENT)), GatewayCaller)
    assert len(parsed) == 1
    mounted.write(mounted.layout.gateway_file, build_key_file(OTHER, KEY))
    assert isinstance(tokens.identify(OTHER.token(AGENT)), GatewayCaller)
    assert len(parsed) == 2


async def test_without_keys_no_token_of_the_gateway_is_accepted(open_door: Open, mounted: Any) -> None:
    mounted.layout.gateway_file.unlink()
    door = await open_door()
    assert (await ask(door, KEY.token(AGENT))).status_code == 401
    assert (await ask(door, "token-of-default")).status_code == 200


async def test_token_of_a_withdrawn_caller_is_refused_at_once(open_door: Open, mounted: Any) -> None:
    """A valid token is refused when its caller is revoked. Later tokens, and those of other callers, are accepted."""
    door = await open_door()
    stolen, other = KEY.token(AGENT, iat=moment_in(-10)), KEY.token({"sub": "agent:team/other", "uid": "u2"})
    assert (await ask(door, stolen)).status_code == 200
    revoked = [{"caller": "u1", "notBefore": moment_in(-5)}]
    mounted.write(mounted.layout.gateway_file, {**build_key_file(KEY), "revoked": revoked})
    async with within("the former key is refused"):
        while (await ask(door, stolen)).status_code == 200:
            pass
    assert (await ask(door, stolen)).status_code == 401
    assert (await ask(door, other)).status_code == 200
    assert (await ask(door, KEY.token(AGENT))).status_code == 200
    behind = KEY.token(
        {"sub": "agent:team/other", "uid": "u2", "act": AGENT}, sub="agent:team/lead", iat=moment_in(-10)
    )
    assert (await ask(door, behind)).status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        pytest.param({}, id="empty"),
        pytest.param({**build_key_file(KEY), "revoked": [{"caller": "u1"}]}, id="a revocation without a time"),
        pytest.param({**build_key_file(KEY), "keys": []}, id="no keys"),
        pytest.param({**build_key_file(KEY), "keys": [{**KEY.public, "kty": "RSA"}]}, id="another kind of key"),
        pytest.param(
            {**build_key_file(KEY), "keys": [{k: v for k, v in KEY.public.items() if k != "kid"}]}, id="no key id"
        ),
        pytest.param({**build_key_file(KEY), "more": 1}, id="an unknown field"),
    ],
)
def test_invalid_key_file_is_refused_without_its_content(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as refused:
        parse_gateway_keys(json.dumps(content).encode())
    assert KEY.public["x"] not in str(refused.value)


def claims(subject: str, actor: str) -> PairTokenClaims:
    return PairTokenClaims(
        issuer=ISSUER, subject=subject, actor=Actor(actor, "u"), audience=UID, token_id="1", issued_at=0, expires_at=60
    )


@pytest.mark.parametrize(
    ("subject", "actor", "owner"),
    [
        pytest.param(
            "user:bob via agent:a/b", "user:bob via agent:a/b", "user:bob%20via%20agent:a/b",
            id="a name that looks like an agent acting for somebody",
        ),
        pytest.param("user:system:serviceaccount:a:b", "user:system:serviceaccount:a:b",
                     "user:system:serviceaccount:a:b", id="a ServiceAccount"),
        pytest.param("user:zoë@example.com", "user:zoë@example.com", "user:zo%C3%AB@example.com", id="an address"),
        pytest.param("user:" + "x" * 513, "user:" + "x" * 513, None, id="a name that is too long"),
        pytest.param("agent:a/b", "agent:a/c", "agent:a/b via agent:a/c", id="an agent for another agent"),
        pytest.param("agent:a/b", "user:anna", None, id="a person for an agent"),
        pytest.param("agent:A/b", "agent:A/b", None, id="a namespace that is no name"),
    ],
)  # fmt: skip
def test_owner_of_claims(subject: str, actor: str, owner: str | None) -> None:
    assert owner_of(claims(subject, actor)) == owner


@pytest.mark.parametrize(
    ("owner", "wanted"),
    [
        ("client:default", True),
        ("user:anna", True),
        ("user:bob%20via%20agent:a/b", True),
        ("user:anna via agent:a/b", False),
        ("agent:a/b", False),
    ],
)
def test_only_clients_and_persons_are_clients(owner: str, wanted: bool) -> None:
    assert is_client(owner) is wanted


async def begin(door: Any, token: str, *delegations: str) -> Any:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
    headers = [("Authorization", f"Bearer {token}"), *((DELEGATION, each) for each in delegations)]
    async with door.http(None) as http:
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        return await http.post("/a2a", json=call, headers=headers)


@pytest.mark.parametrize("is_durable", [pytest.param(True, id="sqlite"), pytest.param(False, id="memory")])
async def test_delegation_is_kept_with_the_task_and_shown_nowhere(
    open_door: Open, mounted: Any, is_durable: bool, caplog: Any
) -> None:
    caplog.set_level("DEBUG", logger="fleetwright_agent")
    log = SqliteTaskLog(mounted.layout.memory / "tasks.db") if is_durable else MemoryTaskLog()
    door = await open_door(log=log)
    sent = sign_delegation()
    answer = await begin(door, KEY.token(LEAD_FOR_ANNA, sub="user:anna"), sent)
    assert answer.status_code == 200, answer.text
    task = answer.json()["result"]["task"]
    (request,) = door.turn.requests
    kept = await log.delegation(request.owner, task["id"])
    assert kept is not None
    assert (request.owner, kept.token) == ("user:anna via agent:team/lead", sent)
    assert {task["id"], request.task_id, kept.task_id} == {"task-of-delegation"}
    for shown in (answer.text, caplog.text, repr(kept), repr(request), str(dict(answer.headers))):
        assert sent not in shown


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda: [sign_delegation(azp_uid="another-uid")], id="of another agent"),
        pytest.param(lambda: [sign_delegation(sub="user:boss")], id="of another principal"),
        pytest.param(lambda: [sign_delegation({**AGENT, "uid": "u9", "act": ANNA})], id="of another caller"),
        pytest.param(lambda: [sign_delegation(ANNA)], id="of a shorter chain"),
        pytest.param(lambda: [sign_delegation(iat=moment_in(-400), exp=moment_in(-200))], id="after its deadline"),
        pytest.param(
            lambda: [sign_delegation(iss="http://elsewhere", aud="http://elsewhere")], id="of another gateway"
        ),
        pytest.param(lambda: [sign_delegation(key=OTHER)], id="signed with another key"),
        pytest.param(lambda: [sign_delegation(), sign_delegation()], id="two at once"),
        pytest.param(lambda: [KEY.token(LEAD_FOR_ANNA, sub="user:anna")], id="a pair token"),
        pytest.param(lambda: ["x"], id="garbage"),
    ],
)
async def test_delegation_of_another_request_is_refused(open_door: Open, forge: Callable[[], list[str]]) -> None:
    door = await open_door()
    answer = await begin(door, KEY.token(LEAD_FOR_ANNA, sub="user:anna"), *forge())
    assert answer.status_code == 401
    assert door.turn.requests == []


async def test_delegation_is_ignored_with_a_token_of_the_operator(open_door: Open) -> None:
    """A client of the agent cannot make it act for a person."""
    log = MemoryTaskLog()
    door = await open_door(log=log)
    answer = await begin(door, "token-of-default", sign_delegation())
    task = answer.json()["result"]["task"]["id"]
    assert await log.delegation("client:default", task) is None


async def asks(request: TurnRequest) -> AsyncIterator[Frame]:
    payload = {"kind": "approval", "title": "Run?", "detail": "{}", "project": "team/echo"}
    yield InterruptRequest(InterruptKind.APPROVAL, "Run?", payload, request.task_id, "run", {})


@pytest.mark.parametrize(
    ("act", "sub", "chain"),
    [
        pytest.param(ANNA, None, [], id="a person"),
        pytest.param(AGENT, None, ["agent:team/lead"], id="an agent on its own behalf"),
        pytest.param({**AGENT, "act": ANNA}, "user:anna", ["agent:team/lead"], id="an agent for a person"),
        pytest.param(
            {**AGENT, "act": {"sub": "agent:team/clerk", "uid": "u2", "act": ANNA}},
            "user:anna",
            ["agent:team/clerk", "agent:team/lead"],
            id="two agents for a person",
        ),
        pytest.param(
            {**AGENT, "act": {"sub": "agent:team/clerk", "uid": "u2"}},
            "agent:team/clerk",
            ["agent:team/clerk", "agent:team/lead"],
            id="an agent for another agent",
        ),
    ],
)
async def test_open_approval_names_the_agents_on_the_way(
    open_door: Open, mounted: Any, documents: Any, act: dict[str, Any], sub: str | None, chain: list[str]
) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"by": "Reviewers"}))
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN))
    door = await open_door(asks)
    forged = {"https://fleetwright.dev/a2a/callers/v1": ["agent:team/forged", "agent:team/also"]}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "metadata": forged}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    assert (await ask(door, KEY.token(act, sub=sub), body)).status_code == 200
    (approval,) = await Operator(door.url).open()
    assert approval["chain"] == chain
    # A signed token of the gateway neither reads nor decides approvals.
    other = Operator(door.url, KEY.token(act, sub=sub))
    assert (await other.read()).status_code == 403
    assert (await other.decide(approval)).status_code == 403


@pytest.mark.parametrize("mounts_keys", [True, False], ids=["with a gateway", "without a gateway"])
async def test_readiness_response_names_the_agent_to_the_gateway(open_door: Any, mounted: Any, mounts_keys: bool):
    if not mounts_keys:
        mounted.layout.gateway_file.unlink()
    door = await open_door()
    async with door.ops() as ops:
        ready = await ops.get("/readyz")
    assert (ready.status_code, ready.headers.get("Fleetwright-Agent-Uid")) == (200, UID if mounts_keys else None)
