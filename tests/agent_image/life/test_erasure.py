"""Export and erasure of memory by administrators, over HTTP: no file of the volume holds erased data afterwards."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.agent.reports import read_audit_lines
from tests.support.waiting import await_until, within

from fleetwright_a2a.extensions import CONTEXT_FORK
from fleetwright_agent.audit.verification import verify

SECRET = "zanzibar-marmalade"
OTHER = "quixotic-pelican"
ADMIN = {"administrators": ["default"], "memory": {"knowledge": {"enabled": True}}}


async def tell(guest: Any, text: str, context: str) -> dict[str, Any]:
    """Send a message whose words enter every store: task, conversation, session, fact and audit trail."""
    return await guest.say(f'Remember the fact "{text} lives in {context}"', contextId=context)


async def erase(guest: Any, **parameters: str) -> httpx.Response:
    async with guest.http() as http:
        return await http.delete("/admin/memory", params=parameters)


async def export(guest: Any, **parameters: str) -> list[dict[str, Any]]:
    async with guest.http() as http:
        answer = await http.get("/admin/memory", params=parameters)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


def holding(folder: Path, text: str) -> list[str]:
    """Return the files of the volume that contain the text, including write-ahead logs."""
    found = (path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes())
    return sorted(str(path.relative_to(folder)) for path in found)


async def test_erasure_removes_an_owner_from_every_file(agent, mounted):
    memory = mounted.layout.memory
    async with agent(**ADMIN) as admin:
        guest = admin.by("client:other")
        await tell(guest, SECRET, "ctx-a")
        await tell(guest, SECRET, "ctx-b")
        await tell(admin, OTHER, "ctx-a")
        assert {name.split(".")[0].split("/")[0] for name in holding(memory, SECRET)} == {
            *("tasks", "conversations", "knowledge", "audit")
        }
        receipt = (await erase(admin, owner="client:other")).json()
        assert holding(memory, SECRET) == []
        assert len(holding(memory, OTHER)) == 4
        assert receipt["erased"] == {
            "tasks": 2,
            "pushConfigs": 0,
            "conversations": 2,
            "messages": 8,
            "costs": 1,
            "sessions": 2,
            "facts": 2,
            "skills": 0,
            "delegations": 0,
            "auditLines": 2,
        }
        assert [line["kind"] for line in await export(admin, owner="client:other")] == ["end"]
        assert "tasks" in (await guest.call("ListTasks", {}))["result"]


async def test_erasure_of_one_conversation_keeps_the_others(agent, mounted):
    async with agent(**ADMIN) as admin:
        guest = admin.by("client:other")
        await tell(guest, SECRET, "ctx-a")
        await tell(guest, OTHER, "ctx-b")
        receipt = (await erase(admin, owner="client:other", contextId="ctx-a")).json()
        assert (receipt["contextId"], receipt["erased"]["tasks"], receipt["erased"]["facts"]) == ("ctx-a", 1, 1)
        assert holding(mounted.layout.memory, SECRET) == []
        kinds = [line["kind"] for line in await export(admin, owner="client:other")]
        assert kinds == ["task", "conversation", "session", "fact", "cost", "auditLine", "end"]


async def test_erasure_receipt_is_stable_until_new_data(agent):
    async with agent(**ADMIN) as admin:
        guest = admin.by("client:other")
        await tell(guest, SECRET, "ctx-a")
        first = (await erase(admin, owner="client:other")).json()
        assert (await erase(admin, owner="client:other")).json() == first
        await tell(guest, SECRET, "ctx-a")
        assert (await erase(admin, owner="client:other")).json()["digest"] != first["digest"]


async def test_erasure_keeps_the_audit_chain_and_logs_its_digest(agent, mounted):
    async with agent(**ADMIN) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
        receipt = (await erase(admin, owner="client:other")).json()
        await tell(admin, OTHER, "ctx-a")
        verdict = verify(mounted.layout.memory / "audit")
        assert (verdict.broken, verdict.erased) == ((), 1)
        lines = (mounted.layout.memory / "audit/audit.jsonl").read_text()
        assert receipt["digest"] in lines
        assert '"tool": "remember"' in lines


async def test_erasure_starts_no_audit_trail_if_audit_is_off(agent, mounted):
    async with agent(**ADMIN, audit={"mode": "Off"}) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
        await export(admin, owner="client:other")
        assert (await erase(admin, owner="client:other")).json()["erased"]["auditLines"] == 0
    assert not (mounted.layout.memory / "audit").exists()


async def test_erasure_is_audited_if_audit_was_turned_off_later(agent, mounted):
    async with agent(**ADMIN) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
    async with agent(**ADMIN, audit={"mode": "Off"}) as admin:
        assert (await erase(admin, owner="client:other")).json()["erased"]["auditLines"] == 1
    verdict = verify(mounted.layout.memory / "audit")
    assert (verdict.broken, verdict.erased) == ((), 1)


async def test_export_contains_all_stored_data(agent):
    async with agent(**ADMIN) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
        task, conversation, session, fact, cost, line, end = await export(admin, owner="client:other")
        assert SECRET in json.dumps(task["task"]["history"])
        assert [message["role"] for message in conversation["messages"]] == ["human", "ai", "tool", "ai"]
        assert (session["context_id"], fact["source"]["said_by"]) == ("ctx-a", "client:other")
        assert (cost["kind"], cost["purpose"], cost["calls"]) == ("cost", "answer", 2)
        assert (cost["hour"][-7:], cost["inputTokens"] > 0, float(cost["usd"]) > 0) == (":00:00Z", True, True)
        assert "cost" not in {line["kind"] for line in await export(admin, owner="client:other", contextId="ctx-a")}
        assert (line["line"]["tool"], end) == ("remember", {"kind": "end", "lines": 6})


async def test_erasure_cancels_running_tasks_first(agent, states, house, mounted):
    async with agent(**ADMIN) as admin:
        guest = admin.by("client:other")
        task = await guest.say(f"Cook dish for 2 {SECRET}", now=True)
        await await_until(lambda: house.ledger, "the tool has its effect")
        assert (await erase(admin, owner="client:other")).json()["erased"]["tasks"] == 1
        assert (await guest.call("GetTask", {"id": task["id"]}))["error"]["code"] == -32001
        assert holding(mounted.layout.memory, SECRET) == []


async def test_erasure_anonymises_usage_totals(agent):
    async with agent(**ADMIN) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
        assert (await erase(admin, owner="client:other")).json()["erased"]["costs"] == 1
        assert (await erase(admin, owner="client:other")).json()["erased"]["costs"] == 1, "it returns the same receipt"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(
    ("who", "parameters", "status", "says"),
    [
        pytest.param("client:other", {"owner": "client:other"}, 403, "auth.administrators", id="a client that is none"),
        pytest.param("agent:team/peer", {"owner": "agent:team/peer"}, 403, "auth.administrators", id="an agent"),
        pytest.param("client:default", {}, 400, "owner must be", id="nobody is named"),
        pytest.param("client:default", {"owner": "other"}, 400, "owner must be", id="an owner without its kind"),
        pytest.param("client:default", {"owner": "client:a\nb"}, 400, "owner must be", id="an owner with a line break"),
        pytest.param("client:default", {"owner": "client:a", "contextid": "c"}, 400, "contextid", id="a misspelt one"),
        pytest.param("client:default", {"owner": "client:a", "contextId": ""}, 400, "is empty", id="an empty context"),
        pytest.param(
            "client:default", [("owner", "client:a"), ("owner", "client:b")], 400, "given twice", id="two owners"
        ),
        pytest.param(
            "client:default",
            [("owner", "client:a"), ("contextId", "c"), ("contextId", "d")],
            400,
            "given twice",
            id="two conversations",
        ),
    ],
)
async def test_memory_admin_refuses_unauthorised_or_invalid_requests(agent, method, who, parameters, status, says):
    async with agent(**ADMIN) as admin, admin.by(who).http() as http:
        answer = await http.request(method, "/admin/memory", params=parameters)
        assert (answer.status_code, says in answer.json()["error"]["message"]) == (status, True)


async def test_memory_admin_is_denied_without_administrators(agent):
    async with agent() as guest:
        assert (await erase(guest, owner="client:default")).status_code == 403


async def test_erasure_continues_after_a_kill(agent_process, mounted):
    """The kill hits after the erasure is on disk and before its response."""
    async with agent_process(**ADMIN) as admin:
        for n in range(5):
            await tell(admin.by("client:other"), SECRET, f"ctx-{n}")
        asking = asyncio.create_task(erase(admin, owner="client:other"))
        await await_until(lambda: begun(mounted.layout.memory), "the erasure begins", pause=0.001)
        await admin.kill()
        await asyncio.gather(asking, return_exceptions=True)
    async with agent_process(**ADMIN) as admin:
        receipt = (await erase(admin, owner="client:other")).json()
        assert {store: receipt["erased"][store] for store in ("tasks", "facts", "conversations")} == {
            "tasks": 5,
            "facts": 5,
            "conversations": 5,
        }
        assert holding(mounted.layout.memory, SECRET) == []


async def test_erasure_cleans_the_call_log_during_other_calls(agent, mounted):
    calls = mounted.layout.memory / "calls.jsonl"
    async with agent(**ADMIN) as admin:
        runs = await admin.say("Tell me. [[long:40]] [[pause:0.3]]", now=True)
        async with within("the task shows an artifact"):
            while not (await admin.get(runs)).get("artifacts"):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.02)
        await admin.by("client:other").say("Hello")
        assert b"client:other" in calls.read_bytes()
        assert (await erase(admin, owner="client:other")).status_code == 200
        recorded = calls.read_bytes()
        await admin.rested(runs)
        assert calls.read_bytes() == b""
    assert b"client:other" not in recorded
    assert recorded.count(b"client:default") == 1


def begun(folder: Path) -> bool:
    with closing(sqlite3.connect(f"file:{folder}/conversations.db?mode=ro", uri=True)) as db:
        return bool(db.execute("SELECT count(*) FROM erasures WHERE found IS NOT NULL").fetchone()[0])


async def test_erasure_interrupted_by_a_kill_is_finished_at_start(agent_process, mounted):
    """The erasure record is on disk before the erasure. The test writes the record of a process that died then."""
    from fleetwright_agent.storage.erasures import ErasureTarget
    from fleetwright_agent.storage.sqlite.conversations import schema
    from fleetwright_agent.storage.sqlite.engine.database import Database
    from fleetwright_agent.storage.sqlite.erasures import SqliteErasures

    async with agent_process(**ADMIN) as admin:
        await tell(admin.by("client:other"), SECRET, "ctx-a")
        await admin.kill()
    database = Database(mounted.layout.memory / schema.FILE, schema.SCHEMA)
    erasures = SqliteErasures(database)
    begun = await erasures.begin(ErasureTarget("client:other"), asked_by="client:default", at=1.0)
    await erasures.counted(begun, {"tasks": 1, "facts": 7})
    await database.aclose()
    async with agent_process(**ADMIN) as admin:
        async with within("the secret is gone from the memory"):
            while holding(mounted.layout.memory, SECRET):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.1)
            receipt = (await erase(admin, owner="client:other")).json()
        assert (receipt["number"], receipt["erased"]["facts"], receipt["erased"]["tasks"]) == (1, 7, 1)


FORKS = {**ADMIN, "extensions": {"context": True}}


async def fork(guest: Any, text: str, context: str, source: str) -> dict[str, Any]:
    metadata = {CONTEXT_FORK: {"contextId": source}}
    return await guest.say(f'Remember the fact "{text} lives in {context}"', contextId=context, metadata=metadata)


@pytest.mark.parametrize(
    ("erased", "forks", "left"),
    [
        pytest.param("ctx-a", ["ctx-b", "ctx-c"], ["ctx-d"], id="source"),
        pytest.param("ctx-b", ["ctx-c"], ["ctx-a", "ctx-d"], id="fork"),
        pytest.param("ctx-c", [], ["ctx-a", "ctx-b", "ctx-d"], id="fork of a fork"),
    ],
)
async def test_erasure_of_a_conversation_includes_its_forks(agent, mounted, erased, forks, left):
    async with agent(**FORKS) as admin:
        guest = admin.by("client:other")
        await tell(guest, SECRET, "ctx-a")
        await fork(guest, "a badger", "ctx-b", "ctx-a")
        await fork(guest, "an owl", "ctx-c", "ctx-b")
        await tell(guest, OTHER, "ctx-d")
    async with agent(**FORKS) as admin:
        receipt = (await erase(admin, owner="client:other", contextId=erased)).json()
        assert (receipt["contextId"], receipt.get("forks", [])) == (erased, forks)
        assert receipt["erased"]["conversations"] == receipt["erased"]["facts"] == 1 + len(forks)
        lines = await export(admin, owner="client:other")
        assert sorted(line["contextId"] for line in lines if line["kind"] == "conversation") == left
        assert bool(holding(mounted.layout.memory, SECRET)) is ("ctx-a" in left)
        assert (await erase(admin, owner="client:other", contextId=erased)).json() == receipt
    recorded = [line for line in read_audit_lines(mounted) if line["event"] == "memory_erased"]
    assert [line["erased_session_id"] for line in recorded] == [erased, *forks]
    assert {line["receipt"] for line in recorded} == {receipt["digest"]}
    assert {line["forked_from"] for line in recorded[1:]} == ({erased} if forks else set())
    assert verify(mounted.layout.memory / "audit").broken == ()


@pytest.mark.parametrize(
    ("deleted", "left"),
    [
        pytest.param(["ctx-a", "ctx-b"], 1, id="source and fork"),
        pytest.param(["ctx-b", "ctx-c"], 1, id="all forks"),
        pytest.param(["ctx-a", "ctx-b", "ctx-c"], 0, id="all"),
    ],
)
async def test_erasure_finds_forks_of_deleted_conversations(agent, mounted, deleted, left):
    """Retention deletes conversations; their tasks, facts and lines of the audit trail stay."""
    from fleetwright_agent.storage.sqlite.storage import sqlite_storage

    async with agent(**FORKS) as admin:
        guest = admin.by("client:other")
        await tell(guest, SECRET, "ctx-a")
        await fork(guest, "a badger", "ctx-b", "ctx-a")
        await fork(guest, "an owl", "ctx-c", "ctx-b")
    storage = sqlite_storage(mounted.layout.memory)
    await storage.conversations.forget([("client:other", each) for each in deleted])
    await storage.file.aclose()
    async with agent(**FORKS) as admin:
        receipt = (await erase(admin, owner="client:other", contextId="ctx-a")).json()
        assert receipt["forks"] == ["ctx-b", "ctx-c"]
        erased = {store: receipt["erased"][store] for store in ("conversations", "facts", "auditLines")}
        assert erased == {"conversations": left, "facts": 3, "auditLines": 3}
        assert [line["kind"] for line in await export(admin, owner="client:other")] == ["cost", "end"]


async def test_erasure_of_a_fork_interrupted_by_a_kill_is_finished(agent_process, mounted):
    """The process died after it had deleted the conversation of the fork, and with it the record of the fork."""
    from fleetwright_agent.storage.erasures import ErasureTarget
    from fleetwright_agent.storage.sqlite.storage import sqlite_storage

    async with agent_process(**FORKS) as admin:
        await tell(admin.by("client:other"), OTHER, "ctx-a")
        await fork(admin.by("client:other"), SECRET, "ctx-b", "ctx-a")
        await admin.kill()
    storage = sqlite_storage(mounted.layout.memory)
    begun = await storage.erasures.begin(ErasureTarget("client:other", "ctx-a"), asked_by="client:default", at=1.0)
    await storage.erasures.counted(begun, {"tasks": 2, "facts": 9}, ["ctx-b"])
    await storage.owners.erase(ErasureTarget("client:other", "ctx-b"), tasks=[])
    await storage.file.aclose()
    async with agent_process(**FORKS) as admin:
        async with within("the secret is gone from the memory"):
            while holding(mounted.layout.memory, SECRET):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.1)
            receipt = (await erase(admin, owner="client:other", contextId="ctx-a")).json()
        assert (receipt["number"], receipt["forks"]) == (1, ["ctx-b"])
        assert (receipt["erased"]["tasks"], receipt["erased"]["facts"]) == (2, 9)
