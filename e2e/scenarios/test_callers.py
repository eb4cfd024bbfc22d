"""Tests which callers can reach an agent, and that no caller sees the tasks of another."""

import json
from dataclasses import dataclass

import pytest
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Caller, Fleet, agent, text_of
from tests.support.machine import ceiling

_ASK_API = """
import ssl, sys, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
token = sys.stdin.read() or open(f"{folder}/token").read()
trust = ssl.create_default_context(cafile=f"{folder}/ca.crt")
request = urllib.request.Request("https://kubernetes.default.svc/api", headers={"Authorization": f"Bearer {token}"})
try:
    print(urllib.request.urlopen(request, context=trust, timeout=float(sys.argv[1])).status)
except urllib.error.HTTPError as error:
    print(error.status)
"""


@dataclass(frozen=True)
class Door:
    fleet: Fleet
    friend: Caller
    stranger: Caller
    card: str

    def ask_api_server(self, token: str = "") -> int:
        """Return the status that the API server answers the stranger; without a token, that of the stranger's own."""
        ask = ("exec", "-i", self.stranger.pod, "--", "python", "-c", _ASK_API, f"{ceiling(1)}")
        return int(self.fleet.run(*ask, stdin=token))


@pytest.fixture(scope="module")
def door(fleet: Fleet) -> Door:
    clients = [{"name": "first"}, {"name": "second"}]
    fleet.apply(
        agent("desk", auth={"clients": clients}, peers=[{"name": "vault"}]),
        agent("vault", allowedCallers={"agents": [{"name": "desk"}]}),
        agent("intruder", peers=[{"name": "vault"}]),
        agent("outsider", fleet={"reach": "Direct"}),
        workloads.pod("elsewhere", image=fleet.image, command=workloads.SERVE),
        workloads.service("elsewhere"),
    )
    friend, stranger = fleet.caller("friend", of="desk"), fleet.caller("stranger")
    fleet.ready("agent/desk", "agent/vault", "agent/outsider", "pod/elsewhere")
    card = f"http://desk.{fleet.namespace}.svc.cluster.local/.well-known/agent-card.json"
    fleet.until(lambda: friend.http(card, promised=0.3).status == 200, "the network lets the friend in")
    return Door(fleet, friend, stranger, card)


def test_agent_card_is_public_and_names_the_enforced_scheme(door: Door) -> None:
    one = door.friend.http(door.card)
    other = door.friend.http(door.card.replace("agent-card.json", "agent.json"))
    assert one.body == other.body
    card = json.loads(one.body)
    (scheme,) = card["securitySchemes"].values()
    assert scheme["httpAuthSecurityScheme"]["scheme"].lower() == "bearer"
    assert card["supportedInterfaces"][0]["url"] == f"http://desk.{door.fleet.namespace}.svc.cluster.local/a2a"


@pytest.mark.parametrize(
    "token", [pytest.param(None, id="without a token"), pytest.param("x" * 43, id="with a wrong one")]
)
def test_call_without_valid_token_returns_401_with_the_scheme(door: Door, token: str | None) -> None:
    refused = door.friend.send("desk", "Hello", token=token)
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")


def test_agent_ingress_denies_pods_that_are_not_callers(door: Door) -> None:
    door.fleet.until(lambda: door.fleet.reaches(door.stranger.pod, "elsewhere", 80), "the stranger has a network")
    assert door.stranger.http(door.card, promised=0.3).status == 0
    assert door.stranger.send("desk", "Hello", token=door.fleet.token("desk", "first")).status == 0


def test_agent_egress_denies_undeclared_destinations(door: Door) -> None:
    pod = door.fleet.pod_of("desk")
    door.fleet.until(lambda: door.fleet.reaches(pod, "vault", 80), "the agent reaches its peer")
    assert not door.fleet.reaches(pod, "elsewhere", 80)
    assert not door.fleet.reaches(pod, "intruder", 80)
    assert not door.fleet.reaches(pod, "kubernetes.default.svc", 443)


def test_agent_pod_has_no_kubernetes_api_credential(door: Door) -> None:
    """A pod has no token at all, or, in a team, only one for the gateway, which the API server refuses."""
    for name in ("desk", "outsider"):
        assert "secrets" not in door.fleet.run("exec", door.fleet.pod_of(name), "--", "ls", "/var/run/")
    assert "fleetwright" not in door.fleet.run("exec", door.fleet.pod_of("desk"), "--", "ls", "/var/run/")

    token = door.fleet.run("exec", door.fleet.pod_of("outsider"), "--", "cat", "/var/run/fleetwright/gateway/token")
    door.fleet.until(lambda: door.ask_api_server() == 200, "the API server accepts the token of another pod")
    assert door.ask_api_server(token) == 401


def test_tasks_are_isolated_between_callers(door: Door) -> None:
    first, second = door.fleet.token("desk", "first"), door.fleet.token("desk", "second")
    task = door.friend.send("desk", "My parrot is called Ida.", token=first, context="shared").result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    known = door.friend.rpc("desk", "ListTasks", {}, token=first).result
    assert [seen["id"] for seen in known["tasks"]] == [task["id"]]
    assert not door.friend.rpc("desk", "ListTasks", {}, token=second).result.get("tasks")
    assert door.friend.rpc("desk", "GetTask", {"id": task["id"]}, token=second).error == -32001
    assert door.friend.rpc("desk", "CancelTask", {"id": task["id"]}, token=second).error == -32001

    for context in ("shared", "another"):
        asked = door.friend.send("desk", "What is my parrot called?", token=second, context=context).result["task"]
        assert "Ida" not in text_of(asked)
    remembered = door.friend.send("desk", "What is my parrot called?", token=first, context="shared").result["task"]
    assert "Ida" in text_of(remembered)


def test_peer_refuses_an_agent_that_is_not_an_allowed_caller(door: Door) -> None:
    fleet = door.fleet
    status, _, message = fleet.condition("agent/intruder", "ReferencesResolved")
    assert status == "False", "an agent that its peer does not allow is told so"
    assert "vault" in message
    assert not fleet.reaches(fleet.pod_of("outsider"), "vault", 80), "no path for an agent that is no caller"

    # A pod that the network policy admits still needs the credential of an allowed caller.
    pair = fleet.run("exec", fleet.pod_of("desk"), "--", "cat", f"/etc/fleetwright/auth/peer.{fleet.namespace}.vault")
    inside = fleet.caller("inside", of="vault")
    fleet.until(lambda: inside.reaches("vault", token=pair), "an allowed caller's credential opens")
    assert inside.status("vault", token=fleet.token("outsider")) == 401
    assert inside.status("vault", token=fleet.token("desk", "first")) == 401

    fleet.apply(agent("vault", allowedCallers={"agents": []}))
    fleet.until(lambda: inside.status("vault", token=pair) == 401, "who is no longer allowed is refused", promised=5)
    fleet.apply(agent("vault", allowedCallers={"agents": [{"name": "desk"}]}))


def test_malformed_call_returns_the_protocol_error(door: Door) -> None:
    token = door.fleet.token("desk", "first")
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
    url = f"http://desk.{door.fleet.namespace}.svc.cluster.local/a2a"
    wrong = {"{": -32700, "[]": -32600, '{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}': -32601}
    assert {body: door.friend.http(url, body=body, headers=headers).error for body in wrong} == wrong
    assert door.friend.rpc("desk", "SendMessage", {"message": {}}, token=token).error == -32602
