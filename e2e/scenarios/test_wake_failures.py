"""A sleeping agent cannot start: the caller learns the cause from the gateway, and repeats its message later."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.scenarios.fleet import Answer, Caller, Fleet, NoPod, message, user
from e2e.scenarios.sleeping import wait_for_sleep
from e2e.scenarios.workloads import MISSING_IMAGE

NAPPER = "napper"
_UNAVAILABLE = 503
_USER = "ROLE_USER"


@dataclass(frozen=True)
class Napper:
    """A sleeping agent, which may run only on nodes of its own pool, and its caller."""

    fleet: Fleet
    caller: Caller
    token: str
    pool: str
    """The label of the nodes of the pool."""

    def send(self, asked: Mapping[str, Any]) -> Answer:
        return self.caller.gateway_rpc(NAPPER, "SendMessage", {"message": asked}, token=self.token)

    def tasks(self) -> dict[str, list[str]]:
        """Return the ids of the messages of each task."""
        params = {"pageSize": 100, "historyLength": 100}
        found = self.caller.gateway_rpc(NAPPER, "ListTasks", params, token=self.token).result["tasks"]
        return {each["id"]: [said["messageId"] for said in each["history"] if said["role"] == _USER] for each in found}

    def patch(self, spec: Mapping[str, Any]) -> None:
        self.fleet.run("patch", f"agent/{NAPPER}", "--type=merge", "-p", json.dumps({"spec": spec}))


@contextmanager
def exhausted_quota(napper: Napper) -> Iterator[None]:
    """Allow no further pod in the namespace."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "no-pods"},
        "spec": {"hard": {"pods": "0"}},
    }
    napper.fleet.apply(quota)

    def is_enforced() -> bool:
        return "pods" in napper.fleet.get("resourcequota/no-pods").get("status", {}).get("hard", {})

    napper.fleet.until(is_enforced, "the quota is enforced")
    try:
        yield
    finally:
        napper.fleet.run("delete", "resourcequota/no-pods")


@contextmanager
def empty_node_pool(napper: Napper) -> Iterator[None]:
    """Remove all nodes from the agent's pool. The nodes stay, so that other scenarios can use them."""
    napper.fleet.kubectl.run("label", "nodes", "--all", f"{napper.pool}-")
    try:
        yield
    finally:
        napper.fleet.kubectl.run("label", "nodes", "--all", f"{napper.pool}=agents")


@contextmanager
def missing_image(napper: Napper) -> Iterator[None]:
    napper.patch({"image": MISSING_IMAGE})
    try:
        yield
    finally:
        napper.patch({"image": None})


@pytest.fixture(scope="module")
def napper(fleet: Fleet) -> Iterator[Napper]:
    pool = f"fleetwright.test/{fleet.namespace}"
    fleet.kubectl.run("label", "nodes", "--all", f"{pool}=agents")
    try:
        placed = {"spec": {"nodeSelector": {pool: "agents"}}}
        caller, token = user(fleet, NAPPER, sleep={"afterIdle": "10s"}, podTemplate=placed)
        found = Napper(fleet, caller, token, pool)
        reaches = lambda: caller.gateway_rpc(NAPPER, "ListTasks", {}, token=token).status == 200  # noqa: E731
        fleet.until(reaches, "the caller reaches the agent through the gateway")
        yield found
    finally:
        fleet.kubectl.run("label", "nodes", "--all", f"{pool}-")


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        pytest.param(exhausted_quota, "Quota", id="quota"),
        pytest.param(empty_node_pool, "Unschedulable", id="node"),
        pytest.param(missing_image, "ImagePull", id="image"),
    ],
)
def test_failed_wake_names_its_cause_and_runs_a_message_once(
    napper: Napper, cause: Callable[[Napper], AbstractContextManager[None]], reason: str
) -> None:
    wait_for_sleep(napper.fleet, NAPPER)
    asked = message("What is two and two?")
    answers: list[Answer] = []

    def ask() -> Answer:
        answers.append(napper.send(asked))
        return answers[-1]

    def error_of(answer: Answer) -> str:
        return str(json.loads(answer.body)["error"]["message"])

    with cause(napper):
        # A busy control plane may report the cause later than the gateway stops waiting.
        sentence = f"The agent did not wake in time: Available is False, {reason}."
        seen = napper.fleet.until(lambda: error_of(ask()) == sentence, "the caller sees the cause")
        assert {each.status for each in answers} == {_UNAVAILABLE}
        assert all(int(each.headers["retry-after"]) > 0 for each in answers)

    # Kubernetes repeats a refused pod, an image pull and a placement with a backoff of its own.
    waited = napper.fleet.until(lambda: ask().status != _UNAVAILABLE, "the same message is answered")
    print(f"{reason} after {seen:.1f} s, and the answer {waited:.1f} s later, with {len(answers)} requests")
    task = answers[-1].result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    assert ask().result["task"]["id"] == task["id"], "a repeated message gets the first task"
    tasks = napper.tasks()
    assert [of for of, messages in tasks.items() if asked["messageId"] in messages] == [task["id"]]
    calls: list[int] = []

    def has_counted() -> bool:
        ask()  # The agent may have gone to sleep meanwhile. A repeated message wakes it and runs nothing.
        with suppress(NoPod):
            calls.append(napper.fleet.model_calls(NAPPER))
        return bool(calls)

    napper.fleet.until(has_counted, "the agent shows its counters")
    assert calls[-1] == len(tasks), "each task ran once"
