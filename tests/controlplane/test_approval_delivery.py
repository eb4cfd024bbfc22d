"""Approvals from an agent's question to the delivered decision, with the operator's process and its real rights."""

import hashlib
import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from e2e.cluster.ports import free_address
from tests.support.controlplane.administrator import PATHS
from tests.support.controlplane.approvals import account_username, decide

PORT = 7870
DIGEST = "sha256:" + "c" * 64


@dataclass
class Runtime:
    """The approval routes of an agent. It accepts one decision for each question, and only the operator's token."""

    digests: set[str] = field(default_factory=set)
    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    deliveries: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refused: int = 0
    address: str = field(default_factory=free_address)
    version: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def ask(self, ask: str, **more: Any) -> None:
        with self.changed:
            self.open[ask] = {
                "task": f"task-of-{ask}", "context": "c", "ask": ask, "tool": "load_skill", "title": "Load?",
                "preview": "Loads a skill", "arguments": {"name": "x"}, "argumentsDigest": DIGEST,
                "requestedBy": "user:anna", "chain": [], "createdAt": "2026-03-01T12:00:00Z", "expiresAt": None, **more,
            }  # fmt: skip
            self._change()

    def end(self, ask: str) -> None:
        with self.changed:
            del self.open[ask]
            self._change()

    def _change(self) -> None:
        self.version += 1
        self.changed.notify_all()

    def list(self, after: str | None, wait: float) -> dict[str, Any]:
        with self.changed:
            self.changed.wait_for(lambda: str(self.version) != after, timeout=wait)
            return {"version": str(self.version), "open": list(self.open.values())}

    def decide(self, ask: str, decision: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.deliveries.append((ask, decision))
            if ask in self.decisions:
                first = self.decisions[ask]
                made = {key: first[key] for key in ("decision", "decidedBy")}
                return (200, {"outcome": "accepted"}) if first == decision else (409, {"outcome": "decided", **made})
            if ask not in self.open:
                return 404, {"outcome": "notFound"}
            if decision.get("arguments") == {"name": "bad"}:
                return 422, {"outcome": "invalid", "message": "name: no such skill"}
            self.decisions[ask] = decision
            del self.open[ask]
            self._change()
            return 200, {"outcome": "accepted"}


def _handler(runtime: Runtime) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self._is_operator():
                query = parse_qs(urlsplit(self.path).query)
                after = query["after"][0] if "after" in query else None
                self._answer(200, runtime.list(after, float(query["wait"][0])))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._is_operator():
                self._answer(*runtime.decide(self.path.split("/")[2], body))

        def _is_operator(self) -> bool:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            known = hashlib.sha256(token.encode()).hexdigest() in runtime.digests
            if not known:
                runtime.refused += 1
                self._answer(401, {})
            return known

        def _answer(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            """Log nothing."""

    return Door


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    runtime = Runtime()
    server = ThreadingHTTPServer((runtime.address, PORT), _handler(runtime))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield runtime
    server.shutdown()
    server.server_close()


@pytest.fixture
def clerk(operator, policy, client, space, kubelet, runtime) -> Any:
    """The pod of an agent that may ask, behind which the runtime listens."""
    space.agent(
        "clerk",
        approvals={"tools": ["load_skill"], "escalateAfter": "1s"},
        fleet={"parent": {"name": "lead"}},
        serviceAccountName="clerk",
    )
    space.agent("lead")
    document = space.eventually(lambda: space.secret("clerk-auth").get("operator.json"), "the operator's digests")
    runtime.digests = {each["sha256"] for each in json.loads(document)["operators"]}
    pod = kubelet.run("clerk")
    status = {"podIP": runtime.address, "podIPs": [{"ip": runtime.address}]}
    space.admin.merge("Pod", space.name, pod, {"status": status}, subresource="/status")
    return client


def approvals(space: Any) -> dict[str, dict[str, Any]]:
    """Return the Approvals by the id of their question."""
    return {body["spec"]["request"]["ask"]: body for body in space.list_objects("Approval")}


def phase(space: Any, ask: str) -> str:
    return str(approvals(space).get(ask, {}).get("status", {}).get("phase", ""))


def wait_for(space: Any, ask: str, wanted: str) -> dict[str, Any]:
    space.eventually(lambda: phase(space, ask) == wanted, f"{ask} is {wanted}")
    return approvals(space)[ask]


def path_of(space: Any, body: dict[str, Any]) -> str:
    return f"{PATHS['Approval'].format(space.name)}/{body['metadata']['name']}"


def test_question_becomes_an_object_and_its_decision_is_delivered_once(clerk, space, runtime):
    runtime.ask("a-1")
    body = wait_for(space, "a-1", "Pending")
    assert body["metadata"]["ownerReferences"][0]["name"] == "clerk"
    assert body["spec"]["request"]["forbiddenDeciders"] == [account_username(space, "clerk")]
    space.eventually(lambda: "Escalated" in _types(approvals(space)["a-1"]), "it is escalated")
    told = space.eventually(
        lambda: [e for e in space.list_objects("Event") if e["reason"] == "ApprovalEscalated"], "an Event"
    )
    assert [event["involvedObject"]["name"] for event in told] == ["lead"]

    decide(clerk("alice"), path_of(space, body), account_username(space, "alice"), "Denied", reason="no")
    done = space.eventually(
        lambda: approvals(space)["a-1"] if "delivered" in approvals(space)["a-1"]["status"] else None, "it is delivered"
    )
    assert (done["status"]["phase"], _types(done)) == ("Denied", ["Decided", "Delivered"])
    assert runtime.deliveries == [
        ("a-1", {
            "task": "task-of-a-1", "decision": "Denied", "decidedBy": account_username(space, "alice"), "reason": "no",
            "argumentsDigest": DIGEST,
        })
    ]  # fmt: skip
    assert runtime.refused == 0


def _types(body: dict[str, Any]) -> list[str]:
    return [condition["type"] for condition in body.get("status", {}).get("conditions", ())]


def test_refused_edit_returns_to_the_person_who_decides_again(clerk, space, runtime):
    runtime.ask("a-2")
    path = path_of(space, wait_for(space, "a-2", "Pending"))
    decide(clerk("alice"), path, account_username(space, "alice"), arguments={"name": "bad"})
    space.eventually(lambda: "no such skill" in json.dumps(approvals(space)["a-2"]["status"]), "the error is told")
    space.eventually(lambda: "decision" not in approvals(space)["a-2"]["spec"], "the decision is removed")
    decide(clerk("bob"), path, account_username(space, "bob"), arguments={"name": "good"})
    wait_for(space, "a-2", "Approved")
    space.eventually(lambda: "a-2" in runtime.decisions, "the agent has the decision")
    assert runtime.decisions["a-2"]["arguments"] == {"name": "good"}


def test_ended_task_withdraws_the_approval(clerk, space, runtime):
    runtime.ask("a-3")
    wait_for(space, "a-3", "Pending")
    runtime.end("a-3")
    wait_for(space, "a-3", "Withdrawn")


def test_killed_operator_delivers_each_decision_exactly_once(clerk, space, runtime, operator):
    """One operator is killed after it has created objects, and decisions are made while there is no operator."""
    for number in range(3):
        runtime.ask(f"b-{number}")
    bodies = [wait_for(space, f"b-{number}", "Pending") for number in range(3)]
    assert operator.stop(signal.SIGKILL) != 0
    runtime.ask("b-3")
    for body in bodies[:2]:
        decide(clerk("alice"), path_of(space, body), account_username(space, "alice"))
    operator.start(wait=False)
    operator.wait_until_leading()
    for ask, wanted in (("b-0", "Approved"), ("b-1", "Approved"), ("b-2", "Pending"), ("b-3", "Pending")):
        wait_for(space, ask, wanted)
    space.eventually(lambda: all("delivered" in approvals(space)[f"b-{n}"]["status"] for n in range(2)), "delivered")
    assert sorted(ask for ask, _ in runtime.deliveries) == ["b-0", "b-1"]
    names = [body["metadata"]["name"] for body in space.list_objects("Approval")]
    assert len(names) == len(set(names)) == 4
    uids = {body["metadata"]["uid"] for body in bodies}
    assert uids <= {body["metadata"]["uid"] for body in space.list_objects("Approval")}
