"""The token exchange: what an agent gets for a direct call, and the attacks that the gateway refuses."""

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest
from joserfc.jwk import ECKey
from tests.support.gateway.fleet_api import NOW, FleetApi
from tests.support.gateway.served_gateway import URL, Client

from fleetwright_a2a.tokens.actors import Actor
from fleetwright_a2a.tokens.delegation_token import DelegationClaims, mint_delegation, verify_delegation
from fleetwright_a2a.tokens.dpop import make_proof, new_proof_key, thumbprint
from fleetwright_a2a.tokens.keys import KeySet, signing_key
from fleetwright_a2a.tokens.pair_token import verify

pytestmark = pytest.mark.process
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT = "urn:ietf:params:oauth:token-type:jwt"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
ENDPOINT = f"{URL}/oauth/token"


@dataclass
class Answer:
    status: int
    body: dict[str, Any]
    headers: Mapping[str, str]


@dataclass
class Exchange:
    """An agent `caller` that names `callee` as a peer, and asks the gateway for tokens."""

    api: FleetApi
    client: Client
    ring: list[dict[str, Any]]
    key: ECKey = field(default_factory=new_proof_key)
    nonce: str = ""

    def token_of(self, name: str) -> str:
        return next(t for t, found in self.api.tokens.items() if found["user"]["username"].endswith(f":{name}"))

    @property
    def verifier(self) -> KeySet:
        return KeySet([{name: jwk[name] for name in ("kty", "crv", "x", "y", "kid")} for jwk in self.ring])

    def proof(self, **changed: Any) -> str:
        values = {"method": "POST", "url": ENDPOINT, "now": NOW, "nonce": self.nonce, **changed}
        return make_proof(values.pop("key", self.key), **values)

    def form(self, **changed: str | None) -> dict[str, str]:
        values = {
            "grant_type": GRANT,
            "subject_token": self.token_of("caller"),
            "subject_token_type": JWT,
            "audience": "team/callee",
            **changed,
        }
        return {name: value for name, value in values.items() if value is not None}

    async def post(
        self,
        form: dict[str, str] | str | None = None,
        *,
        proofs: list[str] | None = None,
        tasks: Sequence[str] = (),
        **headers: str,
    ) -> Answer:
        body = form if isinstance(form, str) else urlencode(self.form() if form is None else form)
        sent = [("DPoP", each) for each in ([self.proof()] if proofs is None else proofs)]
        sent += [("Fleetwright-Task", each) for each in tasks]
        content = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        async with self.client.session.post(
            f"{self.client.base}/oauth/token", data=body.encode(), headers=[*content.items(), *sent]
        ) as answer:
            found = Answer(answer.status, await answer.json(), answer.headers)
        assert found.headers["Cache-Control"] == "no-store"
        return found

    def delegation(self, **changed: Any) -> str:
        claims = {
            "issuer": URL, "subject": "user:ada", "actor": Actor("user:ada", ""), "holder": "agent:team/caller",
            "holder_uid": self.api.uid("caller"), "task": "t", "token_id": "d", "issued_at": int(NOW),
            "expires_at": int(NOW) + 600, **changed,
        }  # fmt: skip
        key = signing_key(next(each for each in self.ring if each["iat"] < NOW))
        return mint_delegation(DelegationClaims(**claims), key)


@pytest.fixture
async def exchange(api: FleetApi, client: Client, keys: Any) -> Exchange:
    api.edit("Agent", "caller", {"spec": {"peers": [{"name": "callee"}]}}, namespace="team")
    made = Exchange(api, client, json.loads(keys.read_text())["keys"])
    first = await made.post()
    assert first.body["error"] == "use_dpop_nonce", first
    made.nonce = first.headers["DPoP-Nonce"]
    return made


async def test_exchange_returns_a_token_bound_to_the_key_of_the_caller(exchange):
    answer = await exchange.post()
    assert answer.status == 200
    assert {name: answer.body[name] for name in ("issued_token_type", "token_type", "expires_in")} == {
        "issued_token_type": ACCESS_TOKEN,
        "token_type": "DPoP",
        "expires_in": 300,
    }
    callee = exchange.api.uid("callee")
    claims = verify(answer.body["access_token"], exchange.verifier, issuer=URL, audience=callee, now=NOW)
    own = Actor("agent:team/caller", exchange.api.uid("caller"))
    assert (claims.subject, claims.actor) == ("agent:team/caller", own)
    assert (claims.key_thumbprint, claims.expires_at - claims.issued_at) == (thumbprint(exchange.key), 300)
    assert answer.headers["X-RateLimit-Limit"] == "600"


async def test_exchange_with_a_delegation_names_the_principal(exchange):
    pod = exchange.token_of("caller")
    form = exchange.form(subject_token=exchange.delegation(), actor_token=pod, actor_token_type=JWT)
    answer = await exchange.post(form, tasks=["t"])
    assert answer.status == 200
    callee = exchange.api.uid("callee")
    claims = verify(answer.body["access_token"], exchange.verifier, issuer=URL, audience=callee, now=NOW)
    chain = Actor("agent:team/caller", exchange.api.uid("caller"), Actor("user:ada", ""))
    assert (claims.subject, claims.actor) == ("user:ada", chain)
    held = verify_delegation(answer.body["delegation"], exchange.verifier, issuer=URL, now=NOW)
    assert (held.subject, held.actor, held.holder) == ("user:ada", chain, "agent:team/callee")
    assert held.expires_at == int(NOW) + 600


@pytest.mark.parametrize("audience", [f"{URL}/agents/team/callee", "https://agents.example.com/agents/team/callee/"])
async def test_exchange_accepts_the_url_of_the_agent(exchange, audience):
    assert (await exchange.post(exchange.form(audience=audience))).status == 200


async def test_exchange_demands_the_current_nonce(exchange):
    exchange.nonce = ""
    answer = await exchange.post()
    assert (answer.status, answer.body["error"]) == (400, "use_dpop_nonce")
    exchange.nonce = answer.headers["DPoP-Nonce"]
    assert (await exchange.post()).status == 200


def encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


PROOFS = {
    "no proof": lambda _: [],
    "two proofs": lambda it: [it.proof(), it.proof()],
    "another method": lambda it: [it.proof(method="GET")],
    "another URL": lambda it: [it.proof(url="http://elsewhere/oauth/token")],
    "an old proof": lambda it: [it.proof(now=NOW - 61)],
    "a proof for a token": lambda it: [it.proof(token="other")],
    "garbage": lambda _: ["x"],
    "a header that is a text": lambda _: [f"{encoded('alg')}.e30.AA"],
    "a header that is a list": lambda _: [f"{encoded(['alg'])}.e30.AA"],
    "a time beyond all limits": lambda it: [it.proof(now=10**400)],
}


@pytest.mark.parametrize("proofs", [pytest.param(each, id=name) for name, each in PROOFS.items()])
async def test_exchange_refuses_a_proof(exchange, proofs):
    answer = await exchange.post(proofs=proofs(exchange))
    assert (answer.status, answer.body["error"]) == (400, "invalid_dpop_proof")
    assert answer.body["error_description"].startswith("DPoP: ")


async def test_exchange_refuses_a_replayed_proof(exchange):
    used = exchange.proof()
    assert (await exchange.post(proofs=[used])).status == 200
    answer = await exchange.post(proofs=[used])
    assert answer.body == {"error": "invalid_dpop_proof", "error_description": "DPoP: the proof was used before."}


FORMS: dict[str, Any] = {
    "another grant": ({"grant_type": "client_credentials"}, "unsupported_grant_type", "grant_type"),
    "no subject": ({"subject_token": None}, "invalid_request", "subject_token"),
    "no audience": ({"audience": None}, "invalid_request", "audience"),
    "another type of token": ({"subject_token_type": ACCESS_TOKEN}, "invalid_request", "subject_token_type"),
    "another requested type": ({"requested_token_type": JWT}, "invalid_request", "requested_token_type"),
    "no type of the actor": ({"actor_token": "x"}, "invalid_request", "actor_token_type"),
    "garbage": ({"subject_token": "x"}, "invalid_grant", "subject_token"),
    "a hidden agent": ({"audience": "team/hidden"}, "invalid_target", "audience"),
    "no such agent": ({"audience": "team/nobody"}, "invalid_target", "audience"),
    "itself": ({"audience": "team/caller"}, "invalid_target", "audience"),
    "no URL": ({"audience": "http://["}, "invalid_target", "audience"),
    "no name": ({"audience": "callee"}, "invalid_target", "audience"),
    "a long task": ({"audience_task": "x" * 129}, "invalid_request", "audience_task"),
    "a task with a line break": ({"audience_task": "a\nb"}, "invalid_request", "audience_task"),
    "another gateway": ({"audience": "http://elsewhere/agents/team/callee"}, "invalid_target", "audience"),
}


@pytest.mark.parametrize(("changed", "error", "names"), [pytest.param(*each, id=name) for name, each in FORMS.items()])
async def test_exchange_names_the_parameter_that_it_refuses(exchange, changed, error, names):
    form = exchange.form(**changed)
    answer = await exchange.post(form)
    assert (answer.status, answer.body["error"]) == (400, error)
    assert names in answer.body["error_description"]
    assert form.get("subject_token", "-") not in answer.body["error_description"].split()


async def test_exchange_hides_agents_that_the_caller_may_not_call(exchange):
    answers = [await exchange.post(exchange.form(audience=f"team/{name}")) for name in ("hidden", "nobody")]
    assert answers[0].body == answers[1].body


async def test_exchange_refuses_a_replaced_agent(exchange):
    exchange.api.add_agent("callee", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": "second"}}})
    answer = await exchange.post()
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")
    assert "replaced" in answer.body["error_description"]


async def test_exchange_is_for_named_peers_only(exchange):
    """A callee can withdraw only callers that name it, so colleagues by hierarchy are called through the gateway."""
    exchange.api.add_running_agent("sibling", spec={"fleet": {"reach": "Direct"}})
    answer = await exchange.post(exchange.form(audience="team/sibling"))
    assert (answer.status, answer.body["error"]) == (400, "invalid_target")
    assert "spec.peers" in answer.body["error_description"]


GRANTS = {
    "a person": lambda it: {"subject_token": it.api.add_person("ada")},
    "a pod with our labels": lambda it: {"subject_token": strange_pod(it.api)},
    "a deleted pod": lambda it: {"subject_token": deleted_pod(it.api)},
    "a delegation without a pod": lambda it: {"subject_token": it.delegation()},
    "a delegation of another agent": lambda it: delegated(it, it.delegation(holder_uid="another")),
    "a delegation after its end": lambda it: delegated(
        it, it.delegation(issued_at=int(NOW) - 60, expires_at=int(NOW))
    ),
    "a person with a delegation": lambda it: {
        **delegated(it, it.delegation()), "actor_token": it.api.add_person("ada"),
    },
}  # fmt: skip


def delegated(exchange: Exchange, delegation: str) -> dict[str, str]:
    return {"subject_token": delegation, "actor_token": exchange.token_of("caller"), "actor_token_type": JWT}


def strange_pod(api: FleetApi) -> str:
    api.add_pod("stranger", account="caller")
    return api.add_pod_token("stranger", "caller")


def deleted_pod(api: FleetApi) -> str:
    token = next(t for t, found in api.tokens.items() if found["user"]["username"].endswith(":caller"))
    api.remove("Pod", "caller-1-a")
    return token


@pytest.mark.parametrize("grant", [pytest.param(each, id=name) for name, each in GRANTS.items()])
async def test_exchange_refuses_the_credential(exchange, grant):
    answer = await exchange.post(exchange.form(**grant(exchange)), tasks=["t"])
    assert (answer.status, answer.body["error"]) == (400, "invalid_grant")
    assert "Fleetwright-Task" not in answer.body["error_description"]


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param([], id="without a task"),
        pytest.param(["u"], id="for another task"),
        pytest.param(["t", "t"], id="with two task headers"),
    ],
)
async def test_exchange_refuses_a_delegation_outside_of_its_task(exchange, tasks):
    answer = await exchange.post(exchange.form(**delegated(exchange, exchange.delegation())), tasks=tasks)
    assert (answer.status, answer.body["error"]) == (400, "invalid_grant")
    assert answer.body["error_description"].startswith("Fleetwright-Task: ")


async def test_exchange_binds_the_delegation_to_one_task(exchange):
    """Without a task of the callee, each delegation has a new id, which the callee uses for the task that it begins."""
    found = []
    for task in (None, None, "theirs"):
        answer = await exchange.post(exchange.form(audience_task=task))
        found.append(verify_delegation(answer.body["delegation"], exchange.verifier, issuer=URL, now=NOW).task)
    assert found[2] == "theirs"
    assert [uuid.UUID(each).version for each in found[:2]] == [4, 4]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        pytest.param("a=1&a=2", {}, 400, id="a repeated parameter"),
        pytest.param("{}", {"Content-Type": "application/json"}, 400, id="JSON"),
        pytest.param("a=1&" * 20, {}, 400, id="too many parameters"),
        pytest.param("a=" + "x" * 40_000, {}, 413, id="too large"),
        pytest.param("é", {}, 400, id="no ASCII"),
    ],
)
async def test_exchange_refuses_a_malformed_body(exchange, body, headers, status):
    answer = await exchange.post(body, **headers)
    assert (answer.status, answer.body["error"]) == (status, "invalid_request")


async def test_exchange_answers_post_only(exchange):
    async with exchange.client.request("GET", "/oauth/token") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        assert (await answer.json())["error"] == "invalid_request"


async def test_exchange_fails_closed_while_reviews_are_unavailable(exchange):
    exchange.api.failing = True
    token = exchange.api.add_token("unknown", "ada")
    answer = await exchange.post(exchange.form(subject_token=token))
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")
    assert answer.headers["Retry-After"] == "2"


async def test_exchange_logs_no_token(exchange, caplog):
    caplog.set_level("INFO", logger="fleetwright_gateway")
    answer = await exchange.post()
    (record,) = [each for each in caplog.records if each.message == "token issued"]
    assert (record.caller, record.agent) == ("agent:team/caller", "team/callee")
    for secret in (answer.body["access_token"], answer.body["delegation"], exchange.token_of("caller")):
        assert all(secret not in str(vars(each)) for each in caplog.records)
