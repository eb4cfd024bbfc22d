"""`fleetwright why` of an agent with `spec.sleep`, against an API over HTTP and the status page behind a tunnel."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl
from tests.support.http_server import serve_in_thread

from fleetwright_cli.inspection.sleep_explanation import read_page
from fleetwright_cli.terminal.transport.errors import AgentUnreachable

READY = [{"type": kind, "status": "True", "reason": "Ready"} for kind in ("Accepted", "Available", "Ready")]
IDLE = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}
UNAVAILABLE = [
    {"type": "Available", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"},
]
SINCE = {"since": "2026-03-01T12:00:00Z"}
SLEEP = {"sleep": {"afterIdle": "10s"}}
BUSY = {**IDLE, "runningTasks": 1}
API = "/apis/fleetwright.dev/v1alpha1/namespaces/team"
Why = Callable[..., str]


def ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def agent(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "desk", "namespace": "team", "uid": "u1", "generation": 1},
        "spec": {"instructions": "x", "model": {"name": "m"}, **(spec or {})},
        "status": {"observedGeneration": 1, "conditions": READY, **status},
    }


def at_clock(page: dict[str, Any], *, ahead: int) -> Response:
    """Return a page of a server whose clock is ahead of that of this machine by some seconds."""
    return JSONResponse(page, headers={"Date": format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), True)})


def approval(name: str, *, owner: str = "u1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "team", "ownerReferences": [{"uid": owner}]}, "spec": spec}


@pytest.fixture
def why(fleet: Fleet, kubectl: Path) -> Iterator[Why]:
    """Return a function that runs the command with these objects, and returns what it prints."""
    served: dict[str, Any] = {}

    async def answer(request: Request) -> Response:
        found = served.get(request.url.path)
        if isinstance(found, Response):
            return found
        return JSONResponse(found, 200) if found is not None else JSONResponse({"code": 404}, 404)

    with serve_in_thread(Starlette(routes=[Route("/{path:path}", answer)]), date_header=False) as port:
        url = f"http://127.0.0.1:{port}"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            "current-context": "c",
        }
        (kubectl / "kubeconfig").write_text(yaml.safe_dump(config))
        environ = with_kubectl(fleet, kubectl) | {"KUBECONFIG": str(kubectl / "kubeconfig"), "TARGET": url}

        def run(body: dict[str, Any], page: Any = None, approvals: tuple[dict[str, Any], ...] = ()) -> str:
            listed = {"kind": "ApprovalList", "metadata": {"resourceVersion": "1"}, "items": list(approvals)}
            served.update({f"{API}/agents/desk": body, f"{API}/approvals": listed, "/status": page})
            ended = run_fleetwright("why", "desk", environment=environ)
            assert ended.returncode == 0, ended.stderr
            return ended.stdout

        yield run


@pytest.mark.parametrize(
    ("make_page", "wanted"),
    [
        pytest.param(lambda: {"activity": {**BUSY, "startedAt": ago(900)}}, "awake because a task runs", id="a task"),
        pytest.param(
            lambda: {"activity": {**IDLE, "startedAt": ago(60)}},
            "awake because Prometheus has not read its metrics since the last task   the operator waits for that for",
            id="no Prometheus",
        ),
        pytest.param(
            lambda: {"activity": {**IDLE, "startedAt": ago(900)}},
            "awake because the operator has not decided yet",
            id="idle",
        ),
        pytest.param(dict, "awake because it reports no activity", id="a runtime without a report"),
        pytest.param(list, "the status page of its pod cannot be read: its answer is not", id="no JSON object"),
        pytest.param(
            lambda: Response("[" * 60_000), "the status page of its pod cannot be read: its answer is not", id="nested"
        ),
        pytest.param(
            lambda: Response("plain", headers={"Content-Encoding": "gzip"}),
            "the status page of its pod cannot be read: no usable answer: ",
            id="no compression as declared",
        ),
        pytest.param(
            lambda: at_clock({"activity": {**IDLE, "startedAt": ago(-3_540)}}, ahead=3_600),
            "awake because Prometheus has not read its metrics since the last task",
            id="a pod whose clock is an hour ahead",
        ),
        pytest.param(
            lambda: at_clock({"activity": {**IDLE, "startedAt": ago(900), "nextWakeAt": ago(-60)}}, ahead=0),
            "awake because the operator has not decided yet",
            id="later work",
        ),
        pytest.param(
            lambda: at_clock({"activity": {**IDLE, "startedAt": ago(900), "nextWakeAt": ago(-60)}}, ahead=120),
            "awake because work is due",
            id="work that is due by the clock of the pod",
        ),
        pytest.param(
            lambda: JSONResponse({"activity": {**BUSY, "startedAt": ago(900)}}, headers={"Date": "soon"}),
            "awake because a task runs",
            id="no date",
        ),
        pytest.param(lambda: None, "the status page of its pod cannot be read: its answer is not", id="no page"),
    ],
)
def test_why_names_what_keeps_an_agent_awake(
    why: Why, kubectl: Path, make_page: Callable[[], Any], wanted: str
) -> None:
    # The page is made now, because its times count from the start of the test.
    assert wanted in why(agent(SLEEP), make_page())
    assert "port-forward --address 127.0.0.1 pod/desk-1 :7871" in (kubectl / "calls").read_text()


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        pytest.param(
            agent(
                SLEEP,
                conditions=[{"type": "Accepted", "status": "False", "reason": "NoGateway", "message": "no gateway"}],
            ),
            "does not sleep because Accepted is False (NoGateway)   no gateway",
            id="a refused spec",
        ),
        pytest.param(
            agent(SLEEP, phase="Asleep", sleep={"since": "2026-03-01T12:00:00Z"}),
            "asleep since 2026-03-01T12:00:00Z   a message through the gateway wakes it",
            id="asleep",
        ),
    ],
)
def test_why_explains_sleep_without_the_pod(why: Why, kubectl: Path, body: dict[str, Any], wanted: str) -> None:
    assert wanted in why(body)
    assert "port-forward" not in ((kubectl / "calls").read_text() if (kubectl / "calls").exists() else "")


def test_why_names_decisions_that_the_agent_has_not_answered(why: Why) -> None:
    shown = why(
        agent(SLEEP),
        {"activity": {**IDLE, "startedAt": ago(900)}},
        (
            approval("desk-1", decision="Approved"),
            approval("desk-2"),
            approval("clerk-1", owner="u2", decision="Denied"),
        ),
    )
    row = next(line for line in shown.splitlines() if "the decision of Approval desk-1 is not delivered" in line)
    assert row.endswith("the operator keeps the agent awake until the decision is delivered")
    assert not [name for name in ("desk-2", "clerk-1") if name in shown]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(agent(), id="no sleep"),
        pytest.param(agent({**SLEEP, "suspend": True}), id="suspended"),
        pytest.param(
            agent(SLEEP, phase="Suspended", conditions=UNAVAILABLE, sleep=SINCE), id="suspended with its team"
        ),
    ],
)
def test_why_says_nothing_of_an_agent_that_cannot_sleep(why: Why, body: dict[str, Any]) -> None:
    assert "Sleep:" not in why(body)


NO_PODS: dict[str, Any] = {"items": []}
PODS = {"items": [{"metadata": {"name": "desk-1"}, "status": {}}]}


@pytest.mark.parametrize(
    ("body", "pods", "wanted"),
    [
        pytest.param(
            agent(SLEEP, phase="Failed", conditions=UNAVAILABLE, sleep=SINCE),
            NO_PODS,
            "asleep since 2026-03-01T12:00:00Z",
            id="asleep with a spec that cannot be applied",
        ),
        pytest.param(
            agent(SLEEP, phase="Pending", conditions=UNAVAILABLE, sleep=SINCE),
            PODS,
            "does not sleep because Available is False (Unschedulable)   0/3 nodes are available",
            id="a pod that waits for a node",
        ),
        pytest.param(agent(SLEEP), NO_PODS, "does not sleep because no pod of it is ready", id="no pod"),
        pytest.param(agent(SLEEP), PODS, "does not sleep because no pod of it is ready", id="no ready pod"),
        pytest.param(
            agent(SLEEP), None, "does not sleep for an unknown reason   its pods cannot be read: ", id="no right"
        ),
    ],
)
def test_why_calls_no_agent_awake_without_a_ready_pod(
    why: Why, kubectl: Path, body: dict[str, Any], pods: dict[str, Any] | None, wanted: str
) -> None:
    (kubectl / "pods.json").unlink()
    if pods is not None:
        (kubectl / "pods.json").write_text(json.dumps(pods))
    shown = why(body)
    assert (wanted in shown, "awake" in shown, "Tools:" in shown) == (True, False, True), shown


@pytest.mark.process
async def test_status_page_that_never_ends_is_given_up() -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.05)

    async def answer(request: Request) -> Response:
        return StreamingResponse(drip())

    with (
        serve_in_thread(Starlette(routes=[Route("/status", answer)])) as port,
        pytest.raises(AgentUnreachable, match=r"^no complete answer within 0.5 s$"),
    ):
        await read_page(f"http://127.0.0.1:{port}/status", seconds=0.5)
