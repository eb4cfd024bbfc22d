"""The identity of callers: agents by their pods, persons by their users, and the attacks that must fail."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.support.gateway.fleet_api import AUDIENCE, ISSUER, NOW, FleetApi, token_text

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.access.access_reviewer import AccessReviewer
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_gateway.identity.authenticator import Authenticator, bearer_of
from fleetwright_gateway.identity.errors import ReviewUnavailable, TooManyReviews, Unauthenticated
from fleetwright_gateway.identity.principals import AgentPrincipal, ClientPrincipal, PersonPrincipal
from fleetwright_gateway.identity.token_reviewer import TokenReviewer


@dataclass
class Rig:
    api: FleetApi
    seconds: float = 0.0
    fleet: Fleet = field(default_factory=Fleet)

    def __post_init__(self) -> None:
        self.clock = Clock(now_ns=lambda: int((NOW + self.seconds) * 1e9), monotonic=lambda: self.seconds)
        reviewer = TokenReviewer(self.api, audiences={AUDIENCE}, clock=self.clock)
        self.authenticator = Authenticator(
            reviewer, self.fleet, audiences={AUDIENCE}, issuers={ISSUER}, clock=self.clock
        )
        self.visibility = Visibility(self.fleet, AccessReviewer(self.api, clock=self.clock))

    async def principal(self, token: str) -> AgentPrincipal | PersonPrincipal:
        assert await Synchroniser(self.api, self.fleet, namespaces=(), resync_seconds=60).fill()
        return await self.authenticator.authenticate(token)

    async def refusal(self, token: str) -> str:
        with pytest.raises(Unauthenticated) as error:
            await self.principal(token)
        assert error.value.sentence == "The credential is not accepted."
        return error.value.reason


def at(address: str) -> Callable[[], str]:
    return lambda: address


@pytest.fixture
def rig(api) -> Rig:
    return Rig(api)


async def test_authenticator_identifies_an_agent_by_its_pod(api, rig):
    token = api.add_running_agent("caller")
    assert await rig.principal(token) == AgentPrincipal(namespace="team", name="caller", uid=api.uid("caller"))


async def test_authenticator_identifies_a_person_by_the_user(api, rig):
    principal = await rig.principal(api.add_person("oidc:ada"))
    assert principal.subject == "user:oidc:ada"
    pipeline = await rig.principal(api.add_token("ci", "system:serviceaccount:ci:runner"))
    assert pipeline.subject == "user:system:serviceaccount:ci:runner"


async def test_fleet_keeps_no_pods_that_are_not_of_agents(api, rig):
    """Each token of a short-lived pod would otherwise take memory until the next change of the cluster."""
    await rig.principal(api.add_running_agent("caller"))
    assert len(rig.fleet._agents_of_pods) == 1
    for number in range(3):
        pod = {"pod-name": f"job-{number}", "pod-uid": f"uid-{number}"}
        extra = {f"authentication.kubernetes.io/{key}": value for key, value in pod.items()}
        token = api.add_token(f"job-{number}", "system:serviceaccount:team:job", extra=extra)
        found = await rig.authenticator.authenticate(token)
        assert found.subject == "user:system:serviceaccount:team:job"
    assert len(rig.fleet._agents_of_pods) == 1


async def test_authenticator_identifies_a_pod_that_finishes_its_calls(api, rig):
    token = api.add_running_agent("caller")
    api.edit("Pod", "caller-1-a", {"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}})
    assert (await rig.principal(token)).subject == "agent:team/caller"
    assert rig.fleet.running_pod(rig.fleet.agents["team", "caller"]) is None


def forged_uid(api: FleetApi) -> str:
    """A pod names the agent's ReplicaSet as its owner, with a wrong uid."""
    forged = {"kind": "ReplicaSet", "metadata": {"name": "caller-1", "uid": "forged"}}
    api.add_pod("forged", owner=forged, account="caller")
    return api.add_pod_token("forged", "caller")


def forged_owner(api: FleetApi) -> str:
    """A pod names the agent's ReplicaSet as its owner, with the right uid, but runs as another ServiceAccount."""
    api.add_pod("forged", owner=api.find("ReplicaSet", "caller-1"), account="other")
    return api.add_pod_token("forged", "other")


def direct_owner(api: FleetApi) -> str:
    """A pod names the Agent itself as its controller."""
    api.add_pod("forged", owner=api.find("Agent", "caller"), account="caller")
    return api.add_pod_token("forged", "caller")


def second_pod(api: FleetApi) -> str:
    """A second pod claims the same chain and the same ServiceAccount."""
    api.add_pod("forged", owner=api.find("ReplicaSet", "caller-1"), account="caller")
    return api.add_pod_token("forged", "caller")


def our_labels(api: FleetApi) -> str:
    """A pod has the labels of an agent's pod, and no owner."""
    api.add_pod("forged", account="other")
    return api.add_pod_token("forged", "other")


def shared_account(api: FleetApi) -> str:
    """Two Agents use one ServiceAccount."""
    api.add_agent("twin", spec={"serviceAccountName": "caller"})
    return api.add_pod_token("caller-1-a", "caller")


def borrowed_account(api: FleetApi) -> str:
    """A pod that is not of the agent uses the agent's ServiceAccount, which makes the agent's own pod ambiguous."""
    api.add_pod("forged", account="caller")
    return api.add_pod_token("caller-1-a", "caller")


def host_network(api: FleetApi) -> str:
    api.add_pod("caller-1-a", owner=api.find("ReplicaSet", "caller-1"), account="caller", host_network=True)
    return api.add_pod_token("caller-1-a", "caller")


def unbound_token(api: FleetApi) -> str:
    """A token of the agent's ServiceAccount that is bound to no pod is no agent, and no person either."""
    return api.add_token("unbound", "system:serviceaccount:team:caller")


def recreated_pod(api: FleetApi) -> str:
    token = api.add_pod_token("caller-1-a", "caller")
    api.remove("Pod", "caller-1-a")
    api.add_pod("caller-1-a", owner=api.find("ReplicaSet", "caller-1"), account="caller")
    return token


def deleted_pod(api: FleetApi) -> str:
    """The API server may accept the token of a pod for a moment after the pod was deleted."""
    token = api.add_pod_token("caller-1-a", "caller")
    api.remove("Pod", "caller-1-a")
    return token


def other_namespace(api: FleetApi) -> str:
    """A pod of another namespace names the ReplicaSet with the right uid."""
    api.add_pod("forged", namespace="evil", owner=api.find("ReplicaSet", "caller-1"), account="caller")
    return api.add_pod_token("forged", "caller", namespace="evil")


@pytest.mark.parametrize(
    "attack",
    [
        forged_uid,
        forged_owner,
        direct_owner,
        second_pod,
        our_labels,
        shared_account,
        borrowed_account,
        host_network,
        unbound_token,
        recreated_pod,
        deleted_pod,
        other_namespace,
    ],
    ids=lambda attack: attack.__name__,
)
async def test_authenticator_refuses_a_forged_agent(api, rig, attack):
    api.add_running_agent("caller")
    assert await rig.refusal(attack(api)) == "pod"


async def test_token_of_a_deleted_pod_is_not_served_from_the_cache(api, rig):
    """The deletion ends the identity at once, although the cached review lasts for up to 30 seconds."""
    token = api.add_running_agent("caller")
    assert isinstance(await rig.principal(token), AgentPrincipal)
    api.remove("Pod", "caller-1-a")
    api.tokens.pop(token)
    for rig.seconds, reason, reviews in ((0, "pod", 1), (29, "pod", 1), (31, "review", 2)):
        assert await rig.refusal(token) == reason
        assert len(api.reviews) == reviews


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        pytest.param("opaque", "shape", id="no JSON web token"),
        pytest.param(
            token_text("x", audience="https://kubernetes.default.svc"), "shape", id="the API server's audience"
        ),
        pytest.param(token_text("x", expires=NOW - 1), "shape", id="expired"),
        pytest.param(token_text("x", issuer="https://evil.example.com"), "shape", id="another issuer"),
        pytest.param(token_text("x", expires=10**400), "shape", id="an expiry beyond all limits"),
        pytest.param(token_text("x", expires=float("inf")), "shape", id="an infinite expiry"),
        pytest.param(token_text("x", expires=float("nan")), "shape", id="an expiry that is no number"),
        pytest.param(token_text("x", issuer=[ISSUER]), "shape", id="an issuer that is a list"),
        pytest.param("a." + "b" * 8200 + ".c", "shape", id="too large"),
        pytest.param(token_text("x"), "review", id="refused by the API server"),
    ],
)
async def test_authenticator_checks_the_shape_before_it_asks(api, rig, token, reason):
    assert await rig.refusal(token) == reason
    assert len(api.reviews) == (reason == "review")


async def test_authenticator_requires_its_own_audience_in_the_review(api, rig):
    """An API server that ignores audiences answers without one; its answer does not count."""
    token = api.add_person("ada")
    api.tokens[token].pop("audiences")
    assert await rig.refusal(token) == "review"
    assert api.reviews == [{"token": token, "audiences": [AUDIENCE]}]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "missing"),
        (["Bearer a.b.c", "Bearer d.e.f"], "ambiguous"),
        (["Basic YTpi"], "malformed"),
        (["Bearer "], "malformed"),
        (["Bearer a,b"], "malformed"),
        (["Bearer é"], "malformed"),
        ([f"Bearer {'x' * 8193}"], "malformed"),
    ],
)
def test_bearer_of_accepts_exactly_one_token(values, reason):
    with pytest.raises(Unauthenticated) as error:
        bearer_of(values)
    assert error.value.reason == reason
    assert bearer_of(["bearer a.b.c"]) == "a.b.c"


async def test_reviewer_caches_answers_and_never_past_the_expiry(api, rig):
    token = api.add_person("ada")
    for rig.seconds, reviews in ((0, 1), (29, 1), (31, 2)):
        await rig.principal(token)
        assert len(api.reviews) == reviews
    short = token_text("short", expires=NOW + 40)
    api.tokens[short] = api.tokens[token]
    await rig.principal(short)
    rig.seconds = 41
    assert await rig.refusal(short) == "shape"
    unknown, before = token_text("unknown"), len(api.reviews)
    for rig.seconds, reviews in ((50, 1), (50.9, 1), (51.1, 2)):
        await rig.refusal(unknown)
        assert len(api.reviews) - before == reviews


async def test_reviewer_merges_concurrent_reviews(api, rig):
    token = api.add_person("ada")
    await asyncio.gather(*(rig.authenticator.authenticate(token) for _ in range(50)))
    assert len(api.reviews) == 1


async def test_reviewer_bounds_garbage_tokens(api, rig):
    """Known callers are served from the cache meanwhile."""
    known = api.add_person("ada")
    await rig.principal(known)
    refused = 0
    for number in itertools.count():
        try:
            await rig.authenticator.authenticate(token_text(f"garbage-{number}"), source=at(f"10.0.0.{number}"))
        except Unauthenticated:
            refused += 1
        except TooManyReviews:
            break
    assert refused == 19
    assert (await rig.principal(known)).subject == "user:ada"
    rig.seconds += 40
    for number in range(40):
        with contextlib.suppress(Unauthenticated, TooManyReviews):
            await rig.authenticator.authenticate(token_text(f"more-{number}"), source=at(f"10.0.0.{number}"))
    assert (await rig.principal(known)).subject == "user:ada", "its review has a limit of its own"
    rig.seconds += 1
    assert await rig.refusal(token_text("later")) == "review"


async def test_reviewer_bounds_garbage_of_one_address(api, rig):
    """Tokens from another address are still reviewed. The limited address may try again after a moment."""
    await Synchroniser(api, rig.fleet, namespaces=(), resync_seconds=60).fill()
    answers = []
    for number in range(50):
        try:
            await rig.authenticator.authenticate(token_text(f"garbage-{number}"), source=at("10.0.0.1"))
        except (Unauthenticated, TooManyReviews) as error:
            answers.append(error.status)
    assert answers == [401] * 10 + [429] * 40
    assert len(api.reviews) == 10
    known = api.add_person("ada")
    assert (await rig.authenticator.authenticate(known, source=at("10.0.0.2"))).subject == "user:ada"
    rig.seconds += 0.1
    other = api.add_person("grace")
    assert (await rig.authenticator.authenticate(other, source=at("10.0.0.1"))).subject == "user:grace"
    with pytest.raises(TooManyReviews):
        await rig.authenticator.authenticate(token_text("again"), source=at("10.0.0.1"))


async def test_reviewer_limits_requests_without_a_source(api, rig):
    """All callers of a proxy that does not name them have no source. The limit of all unknown tokens together stays."""
    await Synchroniser(api, rig.fleet, namespaces=(), resync_seconds=60).fill()
    for number in range(40):
        with contextlib.suppress(Unauthenticated, TooManyReviews):
            await rig.authenticator.authenticate(token_text(f"garbage-{number}"))
    assert len(api.reviews) == 20


async def test_reviewer_fails_closed_and_remembers_no_failure(api, rig):
    token = api.add_person("ada")
    api.failing = True
    with pytest.raises(ReviewUnavailable):
        await rig.principal(token)
    api.failing = False
    assert (await rig.principal(token)).subject == "user:ada"


async def test_visibility_asks_about_the_invoke_permission(api, rig):
    """The first review covers the namespace, and the second one names the agent."""
    api.add_agent("callee")
    api.grants.add(("ada", "team", "callee"))
    ada, grace = await rig.principal(api.add_person("ada")), await rig.principal(api.add_person("grace"))
    assert (await rig.visibility.find(ada, "team", "callee")).name == "callee"
    assert await rig.visibility.find(grace, "team", "callee") is None
    assert await rig.visibility.list(ada) == []
    api.grants.add(("grace", "team", ""))
    rig.seconds = 31
    assert [agent.name for agent in await rig.visibility.list(grace)] == ["callee"]
    asked = api.access_reviews[1]["resourceAttributes"]
    assert asked == {
        "group": "fleetwright.dev",
        "version": "v1alpha1",
        "resource": "agents",
        "subresource": "invoke",
        "verb": "create",
        "namespace": "team",
        "name": "callee",
    }


async def test_visibility_caches_a_review_for_30_seconds(api, rig):
    api.add_agent("callee")
    api.grants.add(("ada", "team", ""))
    ada = await rig.principal(api.add_person("ada"))
    for rig.seconds, reviews in ((0, 1), (29, 1), (31, 2)):
        await rig.visibility.find(ada, "team", "callee")
        assert len(api.access_reviews) == reviews


async def test_visibility_leaves_out_a_deleted_agent_of_a_client(rig):
    client = ClientPrincipal(sha256="0" * 64, agents={("team", "deleted"): "default"})
    assert await rig.visibility.list(client) == []


async def test_visibility_of_an_agent_follows_the_hierarchy(api, rig):
    for name, fleet in {
        "lead": {"reach": "Direct"},
        "left": {"reach": "Direct", "parent": {"name": "lead"}},
        "right": {"reach": "Direct", "parent": {"name": "lead"}},
        "alone": {"reach": "None", "parent": {"name": "lead"}},
    }.items():
        api.add_running_agent(name, spec={"fleet": fleet})
    principal = await rig.principal(api.add_pod_token("left-1-a", "left"))
    assert [agent.name for agent in await rig.visibility.list(principal)] == ["lead", "right"]
    assert await rig.visibility.find(principal, "team", "alone") is None
    assert api.access_reviews == []


@pytest.mark.parametrize(
    ("change", "serves"),
    [
        pytest.param({}, True, id="ready"),
        pytest.param({"ready": False}, False, id="not ready"),
        pytest.param({"host_network": True}, False, id="on the host network"),
        pytest.param({"account": "other"}, False, id="another ServiceAccount"),
        pytest.param({"ip": ""}, False, id="no address"),
    ],
)
async def test_fleet_routes_only_to_the_agents_own_ready_pod(api, rig, change, serves):
    token = api.add_running_agent("callee")
    values = {"owner": api.find("ReplicaSet", "callee-1"), "account": "callee", **change}
    api.add_pod("callee-1-a", **values)
    await rig.principal(api.add_person("ada"))
    pod = rig.fleet.running_pod(rig.fleet.agents["team", "callee"])
    assert (pod is not None and pod.ready) is serves
    assert token


async def test_fleet_routes_to_no_pod_if_two_claim_to_be_the_agent(api, rig):
    api.add_running_agent("callee")
    api.add_pod("forged", owner=api.find("ReplicaSet", "callee-1"), account="callee", ip="127.0.0.66")
    await rig.principal(api.add_person("ada"))
    assert rig.fleet.running_pod(rig.fleet.agents["team", "callee"]) is None


async def test_fleet_change_invalidates_verified_pods(api, rig):
    token = api.add_running_agent("callee")
    assert isinstance(await rig.principal(token), AgentPrincipal)
    callee = rig.fleet.agents["team", "callee"]
    assert rig.fleet.running_pod(callee) is not None
    api.add_pod("forged", owner=api.find("ReplicaSet", "callee-1"), account="callee", ip="127.0.0.66")
    assert await rig.refusal(token) == "pod"
    assert rig.fleet.running_pod(callee) is None
