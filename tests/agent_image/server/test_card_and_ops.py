"""The mounted card, which the agent serves unchanged, and the pages of the operations port."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_a2a.extensions import COST, TRUNCATED
from fleetwright_agent.protocol.frames import CompactionEnd, Frame, TurnDone, TurnRequest
from fleetwright_agent.server.tasks.size_limits import MOST_OF_ARTIFACTS
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.tools.mcp.tool_cache import ToolCache

Open = Callable[..., Any]
PATHS = ["/.well-known/agent-card.json", "/.well-known/agent.json"]


async def test_card_is_served_unchanged_at_both_paths(open_door: Open, mounted: Any) -> None:
    raw = mounted.layout.card_file.read_bytes()
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    door = await open_door()
    async with door.http(None) as http:
        for path in PATHS:
            response = await http.get(path)
            assert response.content == raw
            assert response.headers["etag"] == f'"{digest}"'
            assert response.headers["cache-control"] == "public, max-age=60"
            assert (await http.head(path)).status_code == 200
            for known in (f'"{digest}"', f'W/"{digest}"', f'"x", "{digest}"', "*"):
                again = await http.get(path, headers={"If-None-Match": known})
                assert (again.status_code, again.content) == (304, b"")
            assert (await http.get(path, headers={"If-None-Match": '"old"'})).status_code == 200
            head = await http.head(path)
            assert (head.content, head.headers["content-length"]) == (b"", str(len(raw)))


SINCE = [
    pytest.param({"If-Modified-Since": "Sun, 01 Mar 2026 12:00:00 GMT"}, 304, id="it has not changed since"),
    pytest.param({"If-Modified-Since": "Sun, 01 Mar 2026 11:59:59 GMT"}, 200, id="it has changed since"),
    pytest.param({"If-Modified-Since": "yesterday"}, 200, id="a date that is none"),
    pytest.param({"If-Modified-Since": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, 200, id="a date beyond all dates"),
    pytest.param(
        {"If-Modified-Since": "Sun, 01 Mar 2026 12:00:00 GMT", "If-None-Match": '"old"'}, 200, id="a tag counts more"
    ),
]


@pytest.mark.parametrize(("headers", "status"), SINCE)
async def test_card_has_last_modified_and_honours_conditions(
    open_door: Open, mounted: Any, headers: Any, status: int
) -> None:
    written = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC).timestamp()
    os.utime(mounted.layout.card_file, (written, written))
    door = await open_door()
    async with door.http(None) as http:
        response = await http.get(PATHS[0], headers=headers)
    assert response.status_code == status
    assert response.headers["last-modified"] == "Sun, 01 Mar 2026 12:00:00 GMT"


async def test_card_changes_apply_at_once_and_invalid_ones_never(open_door: Open, mounted: Any) -> None:
    door = await open_door()
    async with door.http(None) as http, door.ops() as ops:
        mounted.layout.card_file.write_text('{"name": "changed"}')
        assert (await http.get(PATHS[0])).json() == {"name": "changed"}
        mounted.layout.card_file.write_text("{")
        assert (await http.get(PATHS[0])).status_code == 503
        assert (await ops.get("/readyz")).text == "agent-card.json is not valid: it is not JSON\n"


async def test_extended_card_is_served_in_the_dialect_of_the_caller(open_door: Open, mounted: Any) -> None:
    public = json.loads(mounted.layout.card_file.read_text())
    skills = [{"id": "secret", "name": "Secret", "description": "Known to callers.", "tags": ["x"]}]
    native = public["supportedInterfaces"][0]
    interfaces = [native, {**native, "protocolVersion": "0.3"}]
    extended = {**public, "skills": skills, "supportedInterfaces": interfaces}
    mounted.write(mounted.layout.extended_card_file, extended)
    door = await open_door()
    answer = await door.call("GetExtendedAgentCard", {})
    assert [skill["id"] for skill in answer["result"]["skills"]] == ["secret"]
    async with door.http() as http:
        rest = await http.get("/a2a/extendedAgentCard")
        assert [skill["id"] for skill in rest.json()["skills"]] == ["secret"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "agent/getAuthenticatedExtendedCard"}
        older = await http.post("/a2a", json=body, headers={"A2A-Version": "0.3"})
        assert [skill["id"] for skill in older.json()["result"]["skills"]] == ["secret"], older.text
    async with door.http(None) as stranger:
        assert (await stranger.get("/a2a/extendedAgentCard")).status_code == 401
        assert "secret" not in (await stranger.get("/.well-known/agent-card.json")).text


async def test_status_page_reports_the_runtime_state(open_door: Open, mounted: Any) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield CompactionEnd("compacted", 900, 300)
        yield TurnDone("x")

    door = await open_door(script)
    digest = f"sha256:{hashlib.sha256(mounted.layout.card_file.read_bytes()).hexdigest()}"
    async with door.ops() as ops:
        before = (await ops.get("/status")).json()
        await door.say("hello")
        after = (await ops.get("/status")).json()
    assert before.pop("activity")["runningTasks"] == 0
    assert 0 <= before.pop("uptimeSeconds") < 600
    assert before == {
        "name": "echo",
        "namespace": "team",
        "revision": "0123456789",
        "cardDigest": digest,
        "runningTasks": 0,
        "currentTask": None,
        "modelCalls": {"calls": 0, "errors": 0, "seconds": 60},
        "spentUsd": 0.0,
        "outcomes": [],
        "lastCompaction": None,
        "mcpServers": [],
        "ready": True,
        "reason": None,
    }
    assert after["lastCompaction"]["tokensAfter"] == 300


async def test_status_page_reports_the_tools_of_each_server(open_door: Open, mounted: Any, documents: Any) -> None:
    server = {"name": "tools", "url": "http://127.0.0.1:9/mcp", "allow": ["a", "b"]}
    mounted.write(mounted.layout.config_file, documents(mcpServers=[server]))
    offers = ToolCache()
    door = await open_door(tool_cache=offers)

    async with door.ops() as ops:

        async def told() -> dict[str, Any]:
            async with within("the status lists an MCP server"):
                while not (servers := (await ops.get("/status")).json()["mcpServers"]):  # noqa: ASYNC110 - from outside
                    await asyncio.sleep(0.01)
            (one,) = servers
            assert isinstance(one, dict)
            return one

        look = {"name": "tools", "reachable": False, "message": "connection refused"}
        assert await told() == look
        offers.put(mounted.config().mcp_servers[0], offered={"a"}, usable=1)
        assert await told() == {**look, "tools": 1, "missing": ["b"], "refused": [], "oversized": []}


async def test_metrics_count_tasks_by_outcome_and_name_the_revision(open_door: Open) -> None:
    door = await open_door()
    await door.say("hello")
    async with door.ops() as ops:
        text = (await ops.get("/metrics")).text
    assert 'fleetwright_agent_info{agent="echo",namespace="team",revision="0123456789"} 1.0' in text
    assert 'fleetwright_task_seconds_count{outcome="completed"} 1.0' in text
    assert 'fleetwright_tasks_ended_total{outcome="completed"} 1.0' in text
    assert 'fleetwright_tasks{state="working"} 0.0' in text


async def test_operations_pages_are_absent_from_the_agent_port(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        for path in ("/healthz", "/readyz", "/metrics", "/status"):
            assert (await http.get(path)).status_code == 404


async def test_damaged_task_log_fails_readiness_but_not_liveness(open_door: Open, mounted: Any) -> None:
    (mounted.layout.memory / "tasks.db").write_bytes(b"garbage" * 1000)
    door = await open_door()
    async with door.ops() as ops, door.http() as http:
        assert (await ops.get("/healthz")).status_code == 200
        ready = await ops.get("/readyz")
        assert ready.status_code == 503
        assert "kept as tasks.db.damaged-" in ready.text
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        refused = await http.post("/a2a", json=body)
        assert refused.status_code == 503
        assert "damaged" not in refused.text
        lookup = await http.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}})
        assert lookup.json()["error"]["code"] == -32603
        assert "tasks.db" not in json.dumps(lookup.json())


async def test_damaged_conversations_fail_readiness_until_repaired(open_door: Open, mounted: Any) -> None:
    database = mounted.layout.memory / "conversations.db"
    database.write_bytes(b"garbage" * 1000)
    door = await open_door(retry_seconds=0.05)
    async with door.ops() as ops:
        ready = await ops.get("/readyz")
        assert (ready.status_code, "conversations.db in the memory volume" in ready.text) == (503, True)
        database.rename(database.with_name("kept-aside"))
        async with within("the agent is ready"):
            while (await ops.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.02)


class FullLog(MemoryTaskLog):
    """A log whose disk fills up while a task runs."""

    async def rest(self, *_: Any, **__: Any) -> None:
        raise TaskLogUnavailable("no space left on /var/lib/fleetwright")


async def test_unstorable_result_fails_the_task_for_waiting_callers(
    open_door: Open, caplog: pytest.LogCaptureFixture
) -> None:
    door = await open_door(log=FullLog())
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "could not be stored" in task["status"]["message"]["parts"][0]["text"]
    assert "no space left" not in json.dumps(task)
    assert "no space left" in caplog.text
    assert [artifact["metadata"][COST]["success"] for artifact in task["artifacts"]] == [False], (
        "the task still has a cost"
    )


class MendedLog(MemoryTaskLog):
    """A log whose writes fail once, and then succeed."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True

    async def rest(self, *arguments: Any, **named: Any) -> None:
        if self.full:
            raise TaskLogUnavailable("no space left")
        await super().rest(*arguments, **named)


async def test_unstorable_end_is_stored_once_the_log_recovers(open_door: Open) -> None:
    log = MendedLog()
    door = await open_door(log=log, retry_seconds=0.05)
    task = await door.say("hello")
    assert (await door.get(task["id"]))["status"]["state"] == "TASK_STATE_FAILED"
    log.full = False
    async with within("no task runs"):
        while await log.busy():  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)
    kept = await door.get(task["id"])
    assert kept["status"]["state"] == "TASK_STATE_FAILED"
    assert [artifact["metadata"][COST]["success"] for artifact in kept["artifacts"]] == [False]
    assert (await door.call("CancelTask", {"id": task["id"]}))["error"]["code"] == -32002


async def test_unstorable_end_has_the_usual_size_limit(open_door: Open) -> None:
    async def endless(_: TurnRequest) -> AsyncIterator[Frame]:
        yield TurnDone("a" * (MOST_OF_ARTIFACTS + 1000))

    door = await open_door(endless, log=FullLog())
    (artifact,) = (await door.say("hello"))["artifacts"]
    assert len(artifact["parts"][0]["text"]) <= MOST_OF_ARTIFACTS
    assert (artifact["metadata"][TRUNCATED], COST in artifact["metadata"]) == (True, True)


async def test_app_close_closes_the_turn(open_door: Open) -> None:
    door = await open_door()
    await door.say("hello")
    assert not door.turn.closed
    await door.app.aclose()
    assert door.turn.closed
