"""An agent under a policy, over A2A: blocked calls have no effect, and the audit trail records executed calls."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import httpx
import pytest
from tests.support.agent.collector import Collector
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until, within

from fleetwright_agent.storage.sqlite.conversations import schema

POLICY = {
    "deny": ["house__cook_dish"],
    "arguments": [{"tool": "house__charge_card", "schema": {"properties": {"amount": {"maximum": 50}}}}],
    "limits": [{"tool": "house__book_table", "max": 1, "windowSeconds": 3600}],
}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def verified(mounted: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleetwright_agent", "audit", "verify", "--root", str(mounted.layout.root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def test_policy_blocked_call_is_reported_without_effect(agent, house):
    async with agent(enforcement=POLICY) as guest:
        assert "greater than the maximum" in read_answer(await guest.say("Charge card 70"))
        assert "charged 30" in read_answer(await guest.say("Charge card 30"))
        read_answer(await guest.say("Cook dish for 2"))
        assert await guest.metric('tool_calls_total{outcome="blocked",tool="house__charge_card"}') == 1
    assert house.ledger == ["charged 30"]


async def test_policy_unknown_tool_gates_the_whole_server(agent, states, house):
    """A misspelt tool name must not leave the intended tool unprotected."""
    async with agent(enforcement={"deny": ["house__chrge_card"]}) as guest:
        task = await guest.say("Charge card 30")
        assert states(task) == "input-required"
        assert await guest.missing() == ["chrge_card"]
    assert house.ledger == []


async def test_policy_call_limit_survives_a_kill(agent_process, house):
    async with agent_process(enforcement=POLICY) as guest:
        assert "is booked" in read_answer(await guest.say("Book table for 2"))
        await guest.kill()
    async with agent_process(enforcement=POLICY) as guest:
        assert "limit of house__book_table is reached" in read_answer(await guest.say("Book table for 3"))
    assert house.ledger == ["table for 2"]


async def test_audit_trail_records_calls_and_status_shows_its_end(agent, mounted, house):
    async with agent(enforcement=POLICY) as guest:
        task = await guest.say("Book table for 2")
        await guest.by("client:other").say("Charge card 70")
        async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
            end = (await http.get("/status")).json()["audit"]
    first, second = read_audit_lines(mounted)
    assert (first["tool"], first["args"], first["outcome"]) == ("house__book_table", {"guests": 2}, "ok")
    assert (first["owner"], first["task_id"], first["session_id"]) == ("client:default", task["id"], task["contextId"])
    assert first["result_summary"] == "A table for 2 is booked."
    assert (second["owner"], second["outcome"], second["success"]) == ("client:other", "blocked", False)
    told = verified(mounted)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["head"] == end["hash"]
    assert end["lines"] == 2


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        pytest.param(f"00-{TRACE}-00f067aa0ba902b7-01", TRACE, id="of a request that belongs to one"),
        pytest.param("", None, id="of one that does not: the line says nothing of it"),
    ],
)
async def test_audit_record_has_the_trace_id_of_the_request(agent, mounted, header, kept):
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Book table for 2"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with agent(audit={"mode": "Required"}) as guest, guest.http() as http:
        read_answer((await http.post("/a2a", json=body, headers={"traceparent": header})).json()["result"]["task"])
    assert [(line["event"], line.get("trace_id")) for line in read_audit_lines(mounted)] == [
        ("tool_call_begins", kept),
        ("tool_call", kept),
    ]
    assert verified(mounted).returncode == 0


async def test_audit_record_has_the_trace_id_that_the_agent_starts(agent, mounted):
    collector = Collector()
    async with collector.serving() as url, agent(telemetry={"endpoint": url}) as guest:
        await guest.say("Book table for 2")
    (line,) = read_audit_lines(mounted)
    assert {span.trace_id.hex() for span in collector.spans} == {line["trace_id"]}


async def begun(guest: Any, house: Any) -> dict[str, Any]:
    """Start a task, and return it once its tool has had its effect but has not returned."""
    task = await guest.say("Cook dish for 2", now=True)
    await await_until(lambda: house.ledger, "the tool has its effect")
    return task


async def test_audit_trail_records_a_cancelled_call(agent, mounted, house):
    async with agent() as guest:
        task = await begun(guest, house)
        await guest.call("CancelTask", {"id": task["id"]})
        house.kitchen.set()
    (line,) = read_audit_lines(mounted)
    assert (line["tool"], line["task_id"], line["args"]) == ("house__cook_dish", task["id"], {"portions": 2})
    assert (line["outcome"], line["success"]) == ("cancelled", False)


async def test_audit_trail_records_a_killed_call_as_unknown(agent_process, mounted, house):
    async with agent_process() as guest:
        task = await begun(guest, house)
        await guest.kill()
    house.kitchen.set()
    async with agent_process() as guest:
        assert (await guest.rested(task))["status"]["state"] == "TASK_STATE_FAILED"
    (line,) = read_audit_lines(mounted)
    assert (line["tool"], line["task_id"], line["outcome"]) == ("house__cook_dish", task["id"], "unknown")
    assert line["args"] == {"portions": 2}


async def test_audit_record_of_a_killed_call_is_redacted(agent_process, mounted, house):
    async with agent_process() as guest:
        await begun(guest, house)
        await guest.kill()
    house.kitchen.set()
    rewritten(mounted, {"portions": 2, "password": "hunter2"})
    async with agent_process() as guest:
        await until_lines(mounted)
    (line,) = read_audit_lines(mounted)
    assert line["args"] == {"portions": 2, "password": "[REDACTED]"}


def rewritten(mounted, arguments):
    """Replace the arguments in the journal, as if the call had had these arguments."""
    body = json.dumps({"tool": "house__cook_dish", "arguments": arguments})
    with closing(sqlite3.connect(mounted.layout.memory / schema.FILE)) as connection:
        assert connection.execute("UPDATE calls SET body = ? WHERE state = 'begun'", (body,)).rowcount == 1
        connection.commit()


async def until_lines(mounted):
    await await_until(lambda: (mounted.layout.memory / "audit/audit.jsonl").exists(), "the audit trail exists")


async def test_readiness_recovers_when_audit_trail_is_writable_again(agent, mounted):
    folder = mounted.layout.memory / "audit"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("in the way")
    async with agent(audit={"mode": "Required"}) as guest:
        await guest.say("Book table for 2")
        async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
            assert (await http.get("/readyz")).status_code == 503
            folder.unlink()
            async with within("the agent is ready"):
                while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it looks from outside
                    await asyncio.sleep(0.05)
    assert [line["event"] for line in read_audit_lines(mounted)] == ["trail_restored"]


async def test_audit_verify_command_detects_an_altered_record(agent, mounted):
    async with agent() as guest:
        await guest.say("Book table for 2")
        await guest.say("Book table for 3")
    file = mounted.layout.memory / "audit/audit.jsonl"
    file.write_text(file.read_text().replace("table for 2", "table for 9"))
    told = verified(mounted)
    assert told.returncode == 11
    assert "audit.jsonl line 1: its content was altered" in told.stderr


async def test_required_audit_blocks_calls_without_a_record(agent, mounted, house):
    (mounted.layout.memory / "audit").parent.mkdir(parents=True, exist_ok=True)
    (mounted.layout.memory / "audit").write_text("in the way")
    async with agent(audit={"mode": "Required"}) as guest:
        assert "the audit trail of this agent cannot be written" in read_answer(await guest.say("Book table for 2"))
        assert await guest.metric("audit_failures_total") == 2
        async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
            assert "audit trail cannot be written" in (await http.get("/readyz")).text
    assert house.ledger == []


async def test_optional_audit_runs_the_call_and_counts_the_loss(agent, mounted, house):
    (mounted.layout.memory / "audit").parent.mkdir(parents=True, exist_ok=True)
    (mounted.layout.memory / "audit").write_text("in the way")
    async with agent() as guest:
        assert "is booked" in read_answer(await guest.say("Book table for 2"))
        assert await guest.metric("audit_failures_total") == 1
    assert house.ledger == ["table for 2"]


async def test_audit_mode_off_writes_no_trail(agent, mounted, house):
    async with agent(audit={"mode": "Off"}) as guest:
        await guest.say("Book table for 2")
    assert house.ledger == ["table for 2"]
    assert not (mounted.layout.memory / "audit").exists()
