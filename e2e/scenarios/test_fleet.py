"""Agents of one team reach each other through the gateway, and an idle agent sleeps until a message wakes it."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.edges import ACCEPTED, REFUSED, Edge
from e2e.scenarios.fleet import GATEWAY, Answer, Caller, Fleet, agent, answer, message, text_of, user
from e2e.scenarios.sleeping import allow_sleep, phase_of, wait_for_sleep
from tests.support.machine import ceiling, machine_factor

AUDIENCE = "fleetwright-gateway"


@dataclass(frozen=True)
class Team:
    """The lead is the parent of the researcher, the writer and the editor; the recluse shares their namespace only."""

    fleet: Fleet
    caller: Caller
    token: str

    def ask(self, text: str) -> str:
        """Send a message to the researcher, and return the text of its answer."""
        task = self.caller.send("researcher", text, token=self.token).result["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        return text_of(task)

    def person(self, account: str) -> str:
        """Return a token with the gateway's audience for a ServiceAccount that stands for a person."""
        return self.fleet.run("create", "token", account, f"--audience={AUDIENCE}").strip()

    def reaches_model(self, pod: str) -> bool:
        """Return whether a pod reaches the model, which no network policy protects."""
        (model,) = self.fleet.get("pods", "--selector=app.kubernetes.io/name=offline-model")["items"]
        return self.fleet.reaches(pod, model["status"]["podIP"], 8080)

    def gateway_log(self) -> list[dict[str, Any]]:
        """Return the lines that the pods of the gateway have logged."""
        selector = "--selector=app.kubernetes.io/component=gateway"
        text = self.fleet.kubectl.run("logs", f"--namespace={SYSTEM}", selector, "--tail=-1")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def get(self, path: str, *, token: str | None) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.caller.http(f"{GATEWAY}{path}", headers=headers, promised=12)

    def send(self, name: str, text: str, *, token: str | None) -> Answer:
        return self.caller.gateway_rpc(name, "SendMessage", {"message": message(text)}, token=token)


@contextmanager
def without_operator(fleet: Fleet) -> Iterator[None]:
    """Stop the operator, and start it again at the end."""
    where, operator = f"--namespace={SYSTEM}", "deployment/fleetwright-operator"
    pods = ("pods", where, "--selector=app.kubernetes.io/name=fleetwright-operator")
    fleet.kubectl.run("scale", where, operator, "--replicas=0")
    try:
        fleet.until(lambda: not fleet.kubectl.get(*pods)["items"], "the operator is gone")
        yield
    finally:
        fleet.kubectl.run("scale", where, operator, "--replicas=1")
        fleet.kubectl.run("rollout", "status", where, operator, f"--timeout={ceiling():.0f}s")


def _account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def _may_invoke(account: str, agents: list[str], namespace: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    name = f"{account}-invokes"
    rule = {"apiGroups": ["fleetwright.dev"], "resources": ["agents/invoke"], "verbs": ["create"]}
    return (
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name},
            "rules": [{**rule, "resourceNames": agents}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )


@pytest.fixture(scope="module")
def team(fleet: Fleet) -> Team:
    child = {"parent": {"name": "lead"}, "reach": "Direct"}
    fleet.apply(
        agent("lead", fleet={"reach": "Direct"}),
        agent("writer", "You are the writer. The motto of the house is: plain words.", fleet=child),
        agent("recluse"),
        _account("anna"),
        _account("visitor"),
        *_may_invoke("anna", ["lead", "writer"], fleet.namespace),
        agent("editor", fleet=child, peers=[{"name": "writer"}]),
    )
    caller, token = user(fleet, "researcher", fleet=child)
    fleet.ready("agent/lead", "agent/writer", "agent/editor", "agent/recluse")
    found = Team(fleet, caller, token)
    fleet.until(lambda: found.get("/v1/agents", token=None).status == 401, "the caller reaches the gateway")
    return found


def test_agent_asks_its_sibling_through_the_gateway(team: Team) -> None:
    assert "plain words" in team.ask('Ask agent "writer" the message "What is the motto of the house?"')


def test_gateway_pods_reach_agents_and_no_other_pods(team: Team) -> None:
    """The network policy of the chart lets the gateway reach agents, and no service of the namespace."""
    seconds = 2 * machine_factor()
    connect = f"import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout={seconds})"
    where = ("exec", "deployment/fleetwright-gateway", f"--namespace={SYSTEM}", "--", "python", "-c", connect)

    def reaches(selector: str, port: int) -> bool:
        (pod,) = team.fleet.get("pods", f"--selector={selector}")["items"]
        return team.fleet.kubectl.attempt(*where, pod["status"]["podIP"], str(port)).returncode == 0

    team.fleet.until(lambda: team.reaches_model(team.caller.pod), "another pod reaches the model")
    team.fleet.until(lambda: reaches("fleetwright.dev/agent=lead", 7870), "the gateway reaches the agent")
    assert not reaches("app.kubernetes.io/name=offline-model", 8080)


def test_only_agents_and_admitted_pods_reach_the_gateway(team: Team) -> None:
    """The network policy of the chart refuses a connection from any other pod of the namespace."""
    host, stranger = f"fleetwright-gateway.{SYSTEM}.svc.cluster.local", team.fleet.caller("stranger")
    team.fleet.until(lambda: team.fleet.reaches(team.caller.pod, host, 80), "an admitted pod reaches the gateway")
    team.fleet.until(lambda: team.fleet.reaches(team.fleet.pod_of("lead"), host, 80), "an agent reaches the gateway")
    team.fleet.until(lambda: team.reaches_model(stranger.pod), "the pod has a network")
    assert not team.fleet.reaches(stranger.pod, host, 80)


def test_agent_outside_the_team_is_not_found(team: Team) -> None:
    told = team.ask('Ask agent "recluse" the message "What is the motto of the house?"')
    assert "plain words" not in told
    listed = team.ask("List the agents.")
    assert "writer" in listed
    assert "recluse" not in listed


def test_second_agent_works_for_the_person_who_asked_the_first(team: Team) -> None:
    space = team.fleet.namespace
    question = 'Ask agent "writer" the message "What is the motto of the house?"'
    told = team.send("lead", question, token=team.person("anna"))
    assert "plain words" in text_of(told.result["task"])
    calls = [each for each in team.gateway_log() if each.get("agent") == f"{space}/writer" and each.get("principal")]
    assert {(each["caller"], each["principal"]) for each in calls} == {
        (f"agent:{space}/lead", f"user:system:serviceaccount:{space}:anna")
    }


def test_declared_peer_is_called_with_a_token_bound_to_a_key(team: Team) -> None:
    """The editor gets the token from the gateway, and calls the writer without the gateway."""
    space = team.fleet.namespace
    caller, token = team.fleet.caller("editor-caller", of="editor"), team.fleet.token("editor")
    team.fleet.until(lambda: caller.reaches("editor", token=token), "the network lets the caller in")
    told = answer(caller, "editor", "Ask the writer: What is the motto of the house?", token)
    assert "plain words" in told
    log = team.gateway_log()
    issued = [each for each in log if each.get("message") == "token issued"]
    assert (f"agent:{space}/editor", f"{space}/writer") in {(each["caller"], each["agent"]) for each in issued}
    assert not [each for each in log if each.get("caller") == f"agent:{space}/editor" and "status" in each]


def test_client_token_reaches_its_own_agent_through_the_gateway(team: Team) -> None:
    answered = team.send("researcher", "Hello", token=team.token)
    assert answered.result["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert team.send("writer", "Hello", token=team.token).status == 404


def test_message_wakes_a_sleeping_sibling(team: Team) -> None:
    """While the operator is away, the gateway serves the agents that are awake, and wakes no agent."""
    allow_sleep(team.fleet, "writer")
    wait_for_sleep(team.fleet, "writer")
    status, reason, _ = team.fleet.condition("agent/writer", "Ready")
    assert (status, reason) == ("True", "Asleep")
    anna = team.person("anna")
    with without_operator(team.fleet):
        assert team.send("lead", "Good morning", token=anna).status == 200
        absent = team.send("writer", "What is the motto of the house?", token=anna)
        assert (absent.status, int(absent.headers["retry-after"]) > 0) == (503, True)
    # A start on a busy machine may take longer than the gateway holds a message.
    question = 'Ask agent "writer" the message "What is the motto of the house?"'
    team.fleet.until(lambda: "plain words" in team.ask(question), "the writer is awake and answers")
    # The gateway forwards the message before the kubelet reports the pod as ready.
    team.fleet.until(lambda: phase_of(team.fleet, "writer") in {"Running", "Asleep"}, "the phase follows", promised=5)


def test_declared_peer_is_woken_by_a_caller_without_a_reach(team: Team) -> None:
    """The clerk calls the sleeping scribe through the gateway, as itself and without a token for direct calls."""
    space = team.fleet.namespace
    motto = "You are the scribe. The motto of the house is: plain words."
    team.fleet.apply(agent("scribe", motto, sleep={"afterIdle": "10s"}))
    team.fleet.ready("agent/scribe")
    caller, token = user(team.fleet, "clerk", peers=[{"name": "scribe"}])
    wait_for_sleep(team.fleet, "scribe")
    question = "Ask the scribe: What is the motto of the house?"
    # A start on a busy machine may take longer than the gateway holds a message.
    team.fleet.until(lambda: "plain words" in answer(caller, "clerk", question, token), "the scribe answers")
    log = [each for each in team.gateway_log() if each.get("caller") == f"agent:{space}/clerk"]
    assert (f"{space}/scribe", 200) in {(each.get("agent"), each.get("status")) for each in log}
    assert not [each for each in log if each.get("message") == "token issued"]


def test_only_a_person_with_the_right_to_invoke_sees_and_wakes_the_agent(team: Team) -> None:
    allow_sleep(team.fleet, "writer")
    wait_for_sleep(team.fleet, "writer")
    visitor, anna = team.person("visitor"), team.person("anna")
    absent = team.send("nobody", "Hello", token=visitor)
    refused = team.send("writer", "Hello", token=visitor)
    assert refused.status == absent.status == 404
    assert team.send("writer", "Hello", token=None).status == 401
    assert team.send("writer", "Hello", token="x" * 43).status == 401
    assert team.get("/v1/agents", token=visitor).body.count('"name"') == 0
    assert phase_of(team.fleet, "writer") == "Asleep"

    answers: list[Answer] = []

    def is_answered() -> bool:
        # A start on a busy machine may take longer than the gateway holds a message.
        answers.append(team.send("writer", "What is the motto of the house?", token=anna))
        return answers[-1].status != 503

    team.fleet.until(is_answered, "the writer is awake")
    task = answers[-1].result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert all(int(each.headers["retry-after"]) > 0 for each in answers[:-1])
    cold_start = int(answers[-1].headers.get("fleetwright-cold-start", "0"))
    assert cold_start > 0 or len(answers) > 1
    print(f"cold start: {cold_start} ms, with {len(answers)} messages")


def test_gateway_has_two_replicas_and_a_disruption_budget(team: Team) -> None:
    where = f"--namespace={SYSTEM}"

    def status(of: str) -> dict[str, Any]:
        found: dict[str, Any] = team.fleet.kubectl.get(f"{of}/fleetwright-gateway", where)["status"]
        return found

    team.fleet.until(lambda: status("deployment").get("readyReplicas") == 2, "two replicas are ready")
    team.fleet.until(lambda: status("poddisruptionbudget")["disruptionsAllowed"] == 1, "one of them may be disrupted")


def test_third_agent_knows_the_person_who_began(team: Team) -> None:
    """The lead asks the editor, which sleeps at first, and the editor asks the writer. Anna may not call the editor."""
    space, anna = team.fleet.namespace, team.person("anna")
    allow_sleep(team.fleet, "editor")
    wait_for_sleep(team.fleet, "editor")
    question = 'Ask agent "editor" the message "Ask the writer: What is the motto of the house?"'

    def is_answered() -> bool:
        # A start on a busy machine may take longer than the gateway holds a message.
        told = team.send("lead", question, token=anna)
        return "plain words" in text_of(told.result["task"])

    team.fleet.until(is_answered, "the editor wakes, and all three agents answer")
    calls = {(each.get("caller"), each.get("agent"), each.get("principal")) for each in team.gateway_log()}
    assert (f"agent:{space}/editor", f"{space}/writer", f"user:system:serviceaccount:{space}:anna") in calls


def test_withdrawn_edge_is_refused_although_the_token_is_valid(team: Team) -> None:
    """Both through the gateway and in direct calls, within ten times the promised two seconds."""
    edge = Edge(team.fleet)
    edge.create()
    try:
        with edge.polled() as answers:
            team.fleet.until(lambda: answers.status == ACCEPTED, "the caller is accepted")
            began = time.monotonic()
            edge.withdraw()
            team.fleet.until(lambda: answers.status == REFUSED, "the caller is refused", promised=2, pause=0.05)
            print({name: f"refused after {since - began:.2f} s" for name, since in answers.since.items()})
            edge.grant()
            team.fleet.until(lambda: answers.status == ACCEPTED, "the same token is accepted again")
    finally:
        edge.delete()
