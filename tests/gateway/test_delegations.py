"""Calls on behalf of a principal: the delegation that an agent gets, and who may use it."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from joserfc.jwk import ECKey
from tests.support.gateway.calls import MESSAGE, caller_token
from tests.support.gateway.fleet_api import NOW, FleetApi
from tests.support.gateway.served_gateway import URL, Client, Received, Upstream

from fleetwright_a2a.tokens.actors import MAX_DEPTH, Actor
from fleetwright_a2a.tokens.delegation_token import (
    DelegationClaims,
    bind_task,
    mint_delegation,
    task_secret,
    verify_delegation,
)
from fleetwright_a2a.tokens.keys import KeySet, signing_key
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, verify
from fleetwright_api.spec.agent import parse_agent
from fleetwright_gateway.tokens.pair_tokens import task_seconds

HEADER = "Fleetwright-Delegation"
TASK = "Fleetwright-Task"


class Installation:
    """The gateway with its keys, and what the agents behind it receive."""

    def __init__(self, api: FleetApi, client: Client, upstream: Upstream, keys: Any) -> None:
        self.api = api
        self.client = client
        self.upstream = upstream
        ring = json.loads(keys.read_text())["keys"]
        self.key = signing_key(next(each for each in ring if each["iat"] < NOW))
        self.verifier = KeySet([{name: jwk[name] for name in ("kty", "crv", "x", "y", "kid")} for jwk in ring])

    async def send(
        self, token: str, to: str, *delegations: str, tasks: Sequence[str] = ("t",), method: str = "POST"
    ) -> tuple[int, str]:
        stated = [*((HEADER, each) for each in delegations), *((TASK, each) for each in tasks)]
        headers = [("Authorization", f"Bearer {token}"), *stated]
        body = {"json": MESSAGE} if method == "POST" else {}
        async with self.client.session.request(
            method, f"{self.client.base}/agents/team/{to}/a2a", headers=headers, **body
        ) as answer:
            return answer.status, await answer.text()

    @property
    def received(self) -> Received:
        return self.upstream.received[-1]

    def pair(self, callee: str) -> PairTokenClaims:
        token = self.received.headers["Authorization"].removeprefix("Bearer ")
        return verify(token, self.verifier, issuer=URL, audience=self.api.uid(callee), now=NOW)

    def delegation(self) -> DelegationClaims:
        return verify_delegation(self.received.headers[HEADER.lower()], self.verifier, issuer=URL, now=NOW)

    def forged(self, holder: str = "caller", *, key: ECKey | None = None, **changed: Any) -> str:
        claims = DelegationClaims(
            **{
                "issuer": URL,
                "subject": "user:ada",
                "actor": Actor("user:ada", ""),
                "holder": f"agent:team/{holder}",
                "holder_uid": self.api.uid(holder),
                "task": "t",
                "token_id": "d",
                "issued_at": int(NOW),
                "expires_at": int(NOW) + 600,
                **changed,
            }
        )
        return mint_delegation(claims, key or self.key)

    def rebound(self) -> str:
        """Return a delegation of the gateway that another key binds to the task."""
        secret = task_secret(ECKey.generate_key("P-256").as_dict(private=True))
        return bind_task(self.forged().split("~")[0], "t", secret)


@pytest.fixture
async def installation(api: FleetApi, client: Client, upstream: Upstream, keys: Any) -> Installation:
    api.grants.add(("ada", "team", "caller"))
    return Installation(api, client, upstream, keys)


@pytest.mark.process
async def test_delegation_carries_the_person_to_the_next_agent(installation):
    """Ada asks `caller`, and `caller` asks `callee` for her."""
    ada, api = installation.api.add_person("ada"), installation.api
    assert (await installation.send(ada, "caller"))[0] == 200
    first = installation.delegation()
    assert (first.subject, first.actor) == ("user:ada", Actor("user:ada", ""))
    assert (first.holder, first.holder_uid) == ("agent:team/caller", api.uid("caller"))
    held = installation.received.headers[HEADER.lower()]
    assert (await installation.send(caller_token(api, "caller"), "callee", held, tasks=[first.task]))[0] == 200
    chain = Actor("agent:team/caller", api.uid("caller"), Actor("user:ada", ""))
    assert (installation.pair("callee").subject, installation.pair("callee").actor) == ("user:ada", chain)
    second = installation.delegation()
    assert (second.subject, second.actor, second.holder) == ("user:ada", chain, "agent:team/callee")
    assert second.expires_at == first.expires_at
    assert (uuid.UUID(first.task).version, uuid.UUID(second.task).version) == (4, 4)
    assert first.task != second.task


@pytest.mark.process
async def test_delegation_is_sent_with_messages_only(installation):
    api = installation.api
    assert (await installation.send(caller_token(api, "caller"), "callee", method="GET"))[0] == 200
    assert HEADER.lower() not in installation.received.headers
    assert (await installation.send(caller_token(api, "caller"), "callee"))[0] == 200
    own = Actor("agent:team/caller", api.uid("caller"))
    assert (installation.delegation().subject, installation.delegation().actor) == ("agent:team/caller", own)


@pytest.mark.process
async def test_delegation_of_the_caller_never_outlives_its_own(installation):
    held = installation.forged(expires_at=int(NOW) + 5)
    assert (await installation.send(caller_token(installation.api, "caller"), "callee", held))[0] == 200
    assert installation.delegation().expires_at == int(NOW) + 5


def deep(length: int) -> Actor:
    return Actor("user:ada", "", deep(length - 1) if length > 1 else None)


def moved(held: str, wanted: str) -> str:
    """Return a delegation whose task is replaced by that of another delegation."""
    grant, _, code = held.split("~")
    return "~".join((grant, wanted.split("~")[1], code))


ATTACKS = {
    "stolen from another agent": ("caller", lambda it: [it.forged("callee")]),
    "of a deleted agent of the same name": ("caller", lambda it: [it.forged(holder_uid="uid-before")]),
    "used by a person": ("ada", lambda it: [it.forged()]),
    "after its deadline": ("caller", lambda it: [it.forged(issued_at=int(NOW) - 60, expires_at=int(NOW))]),
    "of another gateway": ("caller", lambda it: [it.forged(issuer="http://elsewhere")]),
    "signed with another key": ("caller", lambda it: [it.forged(key=ECKey.generate_key("P-256", auto_kid=True))]),
    "too deep a chain": ("caller", lambda it: [it.forged(actor=deep(MAX_DEPTH))]),
    "moved to another task": ("caller", lambda it: [moved(it.forged(task="u"), it.forged())]),
    "bound with another key": ("caller", lambda it: [it.rebound()]),
    "without its code": ("caller", lambda it: [it.forged().rpartition("~")[0]]),
    "two at once": ("caller", lambda it: [it.forged(), it.forged()]),
    "a pair token": ("caller", lambda it: [it.received.headers["Authorization"].removeprefix("Bearer ")]),
    "garbage": ("caller", lambda _: ["x"]),
}


@pytest.mark.process
@pytest.mark.parametrize(("by", "delegations"), [pytest.param(*each, id=name) for name, each in ATTACKS.items()])
async def test_delegation_of_another_is_refused(installation, by, delegations):
    """The refused request does not become a request of the caller itself, and the agent does not see it."""
    api = installation.api
    api.grants.add(("ada", "team", "callee"))
    ada = api.add_person("ada")
    assert (await installation.send(ada, "callee"))[0] == 200
    sent = delegations(installation)
    installation.upstream.received.clear()
    status, text = await installation.send(ada if by == "ada" else caller_token(api, by), "callee", *sent)
    assert status == 403
    assert "Fleetwright-Delegation: " in text
    assert all(each not in text for each in sent if len(each) > 1)
    assert installation.upstream.received == []


TASK_ATTACKS = {
    "for another task": ["u"],
    "without a task": [],
    "with an empty task": [""],
    "with two task headers": ["t", "t"],
    "with a task of each kind": ["t", "u"],
    "with two tasks in one header": ["t, t"],
}


@pytest.mark.process
@pytest.mark.parametrize("tasks", [pytest.param(each, id=name) for name, each in TASK_ATTACKS.items()])
async def test_delegation_is_refused_outside_of_its_task(installation, tasks):
    """Even the agent to which the delegation was issued can use it only for the task that the delegation names."""
    held, token = installation.forged(), caller_token(installation.api, "caller")
    status, text = await installation.send(token, "callee", held, tasks=tasks)
    assert status == 403
    assert "Fleetwright-Task: " in text
    assert held not in text
    assert installation.upstream.received == []
    assert (await installation.send(token, "callee", held))[0] == 200


@pytest.mark.process
async def test_delegation_is_accepted_for_an_id_of_any_characters(installation):
    """A caller of A2A 0.1 chooses the id of its task, and the header is percent-encoded."""
    held = installation.forged(task="größe 100%41")
    token = caller_token(installation.api, "caller")
    assert (await installation.send(token, "callee", held, tasks=["gr%C3%B6%C3%9Fe%20100%2541"]))[0] == 200
    assert (await installation.send(token, "callee", held, tasks=["gr%C3%B6%C3%9Fe%20100%41"]))[0] == 403


@pytest.mark.process
async def test_delegation_names_a_task_for_each_message(installation):
    token, found = caller_token(installation.api, "caller"), []
    for _ in range(2):
        assert (await installation.send(token, "callee"))[0] == 200
        found.append((installation.received.headers["Authorization"], installation.delegation()))
    assert found[0][0] == found[1][0]
    assert found[0][1].task != found[1][1].task
    assert replace(found[0][1], task="") == replace(found[1][1], task="")


@pytest.mark.process
async def test_delegation_alone_authenticates_no_call(installation):
    held = installation.forged()
    async with installation.client.request(
        "POST", "/agents/team/callee/a2a", headers={HEADER: held}, json=MESSAGE
    ) as answer:
        assert answer.status == 401
    assert (await installation.send(held, "callee"))[0] == 401
    assert installation.upstream.received == []


@pytest.mark.process
async def test_delegation_gives_no_access_to_a_hidden_agent(installation):
    """The immediate caller decides about access, so the rights of the principal are not inherited."""
    installation.api.grants.add(("ada", "team", "hidden"))
    status, _ = await installation.send(caller_token(installation.api, "caller"), "hidden", installation.forged())
    assert status == 404


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        pytest.param({}, 4200, id="the default limit of a turn, and an hour in the queue"),
        pytest.param({"limits": {"maxTurnSeconds": 60}}, 3660, id="a limit of its own"),
        pytest.param({"limits": {"maxTurnSeconds": 86400}}, 86400, id="at most a day"),
        pytest.param({"approvals": {"tools": ["pay"]}}, 86400, id="approvals may take long"),
        pytest.param(
            {"mcpServers": [{"name": "shop", "tools": {"requireApproval": ["pay"]}}]}, 86400, id="a tool that needs one"
        ),
        pytest.param({"image": "example.com/agent:1"}, 86400, id="an image that may ask by itself"),
    ],
)
def test_task_seconds_follow_the_limits_of_the_agent(spec, seconds):
    agent = parse_agent({"metadata": {"namespace": "team", "name": "callee", "uid": "u"}, "spec": spec})
    assert task_seconds(agent.spec) == seconds
