"""Push notifications through enforced network policies: they reach the declared receivers, and no others."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Caller, Fleet, agent, message, text_of, user

_RECEIVER = f"""
import http.server, json
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print(json.dumps({{"token": self.headers["X-A2A-Notification-Token"], "task": body["task"]}}), flush=True)
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("", {workloads.PORT}), Hook).serve_forever()
"""


@dataclass(frozen=True)
class Herald:
    fleet: Fleet
    caller: Caller
    token: str

    def send(self, text: str, *, hook: str) -> Any:
        """Send a message, and register that receiver for notifications of the task. Return the response."""
        push = {"url": f"http://{hook}/", "token": "sesame"}
        params = {"message": message(text), "configuration": {"taskPushNotificationConfig": push}}
        return self.caller.rpc("herald", "SendMessage", params, token=self.token)

    def heard(self, hook: str) -> list[dict[str, Any]]:
        lines = self.fleet.run("logs", f"pod/{hook}").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def completion(self, hook: str, task: str) -> dict[str, Any]:
        """Wait for the notification that the task has completed. Notifications of earlier states may precede it."""

        def is_completion(notification: dict[str, Any]) -> bool:
            subject = notification["task"]
            return bool(subject["id"] == task and subject["status"]["state"] == "TASK_STATE_COMPLETED")

        self.fleet.until(lambda: any(map(is_completion, self.heard(hook))), f"{hook} is notified of completion")
        return next(filter(is_completion, self.heard(hook)))


@pytest.fixture(scope="module")
def herald(fleet: Fleet) -> Herald:
    for name in ("hook", "elsewhere"):
        fleet.apply(
            workloads.pod(name, image=fleet.image, command=("python", "-c", _RECEIVER)), workloads.service(name)
        )
    caller, token = user(fleet, "herald", a2a={"push": {"allowedHosts": ["hook:80"]}})
    fleet.ready("pod/hook", "pod/elsewhere")
    fleet.until(lambda: fleet.reaches(fleet.pod_of("herald"), "hook", 80), "the receiver is reached")
    return Herald(fleet, caller, token)


def test_push_notification_reports_the_completed_task(herald: Herald) -> None:
    task = herald.send("Hello.", hook="hook").result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    final = herald.completion("hook", task["id"])
    assert final["token"] == "sesame"
    assert text_of(final["task"]) == text_of(task)


def test_push_to_an_undeclared_host_is_refused(herald: Herald) -> None:
    """The agent and the network both refuse a push notification to a host that is not declared."""
    pod = herald.fleet.pod_of("herald")
    assert herald.send("Hello.", hook="elsewhere").error == -32602
    assert not herald.fleet.reaches(pod, "elsewhere", 80), "the network stops whoever gets past that"
    egress = herald.fleet.get("agent/herald")["status"]["egress"]
    assert [each["to"] for each in egress if each["why"] == "push notifications"] == [
        f"pods of Service {herald.fleet.namespace}/hook, port {workloads.PORT}"
    ]
    assert herald.heard("elsewhere") == []


def test_push_host_that_is_removed_is_refused_and_unreachable(herald: Herald) -> None:
    fleet = herald.fleet
    fleet.apply(agent("herald", a2a={"push": {"allowedHosts": ["elsewhere:80"]}}))
    fleet.until(
        lambda: (
            fleet.reaches(fleet.pod_of("herald"), "elsewhere", 80)
            and not fleet.reaches(fleet.pod_of("herald"), "hook", 80)
        ),
        "the way leads to the other one",
    )
    fleet.ready("agent/herald")
    fleet.until(lambda: herald.caller.reaches("herald", token=herald.token), "the new pod takes calls")
    before = len(herald.heard("hook"))
    assert herald.send("Hello again.", hook="hook").error == -32602
    task = herald.send("Hello once more.", hook="elsewhere").result["task"]
    herald.completion("elsewhere", task["id"])
    assert len(herald.heard("hook")) == before
