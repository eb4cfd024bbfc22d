"""The measures of `make bench-wake`. Each takes the team on the cluster and returns rows."""

import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import IO, Any

from e2e.scenarios.fleet import agent
from e2e.scenarios.phases import PHASES, first_seen, watched
from e2e.scenarios.reviewers import approval_of, decide
from e2e.scenarios.sleeping import wait_for_sleep
from tests.bench.parts import Part
from tests.bench.table import Row
from tests.bench.wake.gateway_client import PERSON, GatewayClient
from tests.bench.wake.withdrawal import withdrawal

_AGENTS = 10
"""Agents that go to sleep together. They wake one after the other."""
_ASKED = "Hello"
_NETWORK = "volumes and network of the pod"
_WAITS = "TASK_STATE_INPUT_REQUIRED"
_SKILL = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Skill",
    "metadata": {"name": "manners"},
    "spec": {
        "source": {"inline": {"files": {"SKILL.md": "---\nname: manners\ndescription: Speech\n---\nSay please.\n"}}}
    },
}
_RESIDENT = "import re; print(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/{process}/status').read())[1])"
_LOOP = "with fast_imports(): import langchain.agents, httpx2"
"""Imports the libraries of the loop, and nothing else: the floor of a first turn."""
_SERVER = "with fast_imports(): import a2a.server.context, a2a.utils.proto_utils, sse_starlette, uvicorn"
"""Imports the libraries of the A2A server. Together with those of the loop, they are the floor of a wake."""
_BEGIN = "import time; from fleetwright_a2a.lazy_import import fast_imports"
_IMPORTED = "print(time.process_time())"


@dataclass(frozen=True)
class _Wake:
    """Times of one wake, in seconds since the message was sent."""

    annotated: float
    """The gateway set the annotation on the Agent."""
    ready: float
    """The gateway found the pod ready."""
    first_text: float
    completed: float
    resident: float
    """Resident memory of the agent's process after the task, in MiB."""
    phases: Mapping[str, float]


def wake(client: GatewayClient, *, times: int) -> list[Row]:
    """Wake sleeping agents by messages, one at a time, on a cluster with nothing else to do."""
    names = [f"sleeper-{number:02}" for number in range(min(_AGENTS, times))]
    client.fleet.apply(*(agent(name, sleep={"afterIdle": "10s"}) for name in names))
    client.fleet.ready(*(f"agent/{name}" for name in names))
    found: list[_Wake] = []
    while len(found) < times:
        wait_for_sleep(client.fleet, *names)
        found += [_woken(client, name) for name in names[: times - len(found)]]
        print(f"  {len(found)} of {times} wakes", flush=True)
    newest = names[(times - 1) % len(names)]
    libraries = (_BEGIN, _SERVER, _LOOP)
    floor = _resident(client, newest, "self", before=libraries)
    loop = _processor_time(client, newest, _BEGIN, _LOOP)
    imported = _processor_time(client, newest, *libraries)
    network = statistics.median([each.phases[_NETWORK] - each.annotated for each in found if _NETWORK in each.phases])
    return [
        *_parts(found),
        Row(
            "Agent patch to completed answer, p50",
            statistics.median([each.completed - each.annotated for each in found]),
            "s",
            2.0,
        ),
        Row(
            "  floor: Kubernetes until the pod has a network, and the imports of libraries",
            network + imported,
            "s",
            is_reference=True,
        ),
        Row("message to first model text, p50", statistics.median([each.first_text for each in found]), "s", 2.3),
        Row("message to first model text, p99", _p99([each.first_text for each in found]), "s", 4.0),
        Row(
            "first turn after the start, p50",
            statistics.median([each.completed - each.ready for each in found]),
            "s",
            0.7,
        ),
        Row("  floor: processor time to import LangChain's agent loop and httpx2", loop, "s", is_reference=True),
        Row("resident memory after the first task", statistics.median([each.resident for each in found]), "MiB", 110.0),
        Row("  floor: a process that only imports these libraries and the server's", floor, "MiB", is_reference=True),
    ]


def _woken(client: GatewayClient, name: str) -> _Wake:
    with watched(client.fleet.kubectl, client.fleet.namespace, name) as seen:
        began, clock = time.monotonic(), time.time()
        first_text = 0.0
        with client.stream(name, _ASKED) as answer:
            answer.raise_for_status()
            ready = int(answer.headers["Fleetwright-Cold-Start"]) / 1000
            for line in answer.iter_lines():
                if not first_text and '"artifactUpdate"' in line:
                    first_text = time.monotonic() - began
        completed = time.monotonic() - began
        annotation = client.fleet.get(f"agent/{name}")["metadata"]["annotations"]["fleetwright.dev/wake"]
        assert first_text, "the answer has a text"
        assert "TASK_STATE_COMPLETED" in _state(client, name), "the task completed"
        time.sleep(1.0)  # The kubelet and the operator report readiness later than the pod itself.
    annotated = datetime.fromisoformat(annotation).timestamp() - clock
    phases = first_seen(each for each in seen.sightings if each[1] != "agents")  # A sleeping Agent is always Ready.
    return _Wake(annotated, ready, first_text, completed, _resident(client, name), phases)


def _state(client: GatewayClient, name: str) -> str:
    newest = client.call(name, "ListTasks", {"pageSize": 1})["tasks"][0]
    return str(newest["status"]["state"])


def _parts(found: Sequence[_Wake]) -> list[Row]:
    """Return the median time from the message to the end of each step of a wake. These rows have no target."""
    steps = {phase: [each.phases[phase] for each in found if phase in each.phases] for *_, phase in PHASES}
    ready = {"the gateway found the pod ready": [each.ready for each in found]}
    done = {"the answer is complete": [each.completed for each in found]}
    return [
        Row(f"  after: {step}", statistics.median(times), "s")
        for step, times in (steps | ready | done).items()
        if times
    ]


def _resident(client: GatewayClient, name: str, process: str = "1", *, before: Sequence[str] = ()) -> float:
    """Return the resident memory in MiB of the agent, or of a program in its pod that runs `before`."""
    return int(_python(client, name, *before, _RESIDENT.format(process=process))) / 1024


def _processor_time(client: GatewayClient, name: str, *lines: str) -> float:
    """Return the processor time in seconds of a program in the agent's pod, as the median of five runs."""
    return statistics.median([float(_python(client, name, *lines, _IMPORTED)) for _ in range(5)])


def _python(client: GatewayClient, name: str, *lines: str) -> str:
    """Run a program in the agent's pod, and return its output."""
    program = "\n".join(lines)
    return client.fleet.run("exec", client.fleet.pod_of(name), "--container=agent", "--", "python", "-c", program)


def approvals(client: GatewayClient, *, times: int) -> list[Row]:
    """Measure how soon an Approval exists for a waiting call, and how soon its decision reaches the agent."""
    fleet = client.fleet
    fleet.apply(_SKILL, agent("asking", skills=[{"name": "manners"}], approvals={"tools": ["load_skill"]}))
    fleet.ready("agent/asking")
    seen: dict[str, float] = {}
    watching = (
        "get",
        "approvals",
        "--watch",
        f"--namespace={fleet.namespace}",
        "-o",
        "jsonpath={.spec.request.task}{'\\n'}",
    )
    appeared, arrived = [], []
    with fleet.kubectl.following(*watching) as stream:
        threading.Thread(target=_note, args=(stream, seen), daemon=True).start()
        for _ in range(times):
            task = client.call("asking", "SendMessage", {"message": _load_skill()})["task"]
            asked = time.monotonic()
            assert task["status"]["state"] == _WAITS, task
            fleet.until(partial(seen.__contains__, task["id"]), "the approval exists")
            appeared.append(seen[task["id"]] - asked)
            name = approval_of(fleet, task["id"])["metadata"]["name"]
            assert decide(fleet, name, PERSON, "Approved").returncode == 0
            decided = time.monotonic()
            fleet.until(partial(_has_continued, client, task), "the decision arrives", pause=0.02)
            arrived.append(time.monotonic() - decided)
    return [
        Row("task waits to Approval exists, p95", _p95(appeared), "s", 5.0),
        Row("kubectl patch to decision applied, p95", _p95(arrived), "s", 5.0),
    ]


def _has_continued(client: GatewayClient, task: Mapping[str, Any]) -> bool:
    return bool(client.call("asking", "GetTask", {"id": task["id"]})["status"]["state"] != _WAITS)


def _load_skill() -> dict[str, Any]:
    return {
        "messageId": f"m-{time.monotonic_ns()}",
        "role": "ROLE_USER",
        "parts": [{"text": "Load the manners skill."}],
    }


def _note(stream: IO[str], seen: dict[str, float]) -> None:
    for line in stream:
        seen.setdefault(line.strip(), time.monotonic())


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def _p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


PARTS = {
    "wake": Part(wake, {"times": 2}),
    "approvals": Part(approvals, {"times": 2}),
    "withdrawal": Part(withdrawal, {"times": 2}),
}
