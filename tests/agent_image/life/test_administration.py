"""The report of costs, the tasks of all callers and the learned skills for administrators, over HTTP."""

import time

import pytest
from tests.support.agent.reports import read_audit_lines
from tests.support.waiting import await_until

ADMIN = {"administrators": ["default"]}


async def equals(value, wanted) -> bool:
    return await value == wanted


async def test_costs_are_reported_by_day_and_caller(agent):
    async with agent(**ADMIN) as admin:
        await admin.by("client:other").say("Hello", contextId="c1")
        await admin.say("Hello", contextId="c2")
        today = time.strftime("%Y-%m-%d", time.gmtime())
        async with admin.http() as http:
            answer = await http.get("/admin/costs", params={"since": "2026-01-01"})
            later = (await http.get("/admin/costs", params={"since": "2999-01-01"})).json()
        rows = answer.json()["costs"]
        assert [(row["caller"], row["calls"]) for row in rows] == [("client:default", 1), ("client:other", 1)]
        assert (rows[0]["day"] >= today, rows[0]["purpose"], float(rows[0]["usd"]) > 0) == (True, "answer", True)
        assert later == {"costs": []}


@pytest.mark.parametrize(
    ("parameters", "status", "says"),
    [
        pytest.param({"since": "yesterday"}, 400, "since must be a day", id="no day"),
        pytest.param({"since": "2026-02-30"}, 400, "since must be a day", id="no such day"),
        pytest.param({"owner": "client:a"}, 400, "There is no parameter", id="unknown"),
    ],
)
async def test_costs_refuse_other_parameters(agent, parameters, status, says):
    async with agent(**ADMIN) as admin, admin.http() as http:
        answer = await http.get("/admin/costs", params=parameters)
        assert (answer.status_code, says in answer.text) == (status, True)


async def test_costs_are_only_for_administrators(agent):
    async with agent(**ADMIN) as admin, admin.by("client:other").http() as http:
        assert (await http.get("/admin/costs")).status_code == 403


async def test_administrators_change_without_a_restart(agent, mounted):
    async def read_costs(guest) -> int:
        async with guest.http() as http:
            return (await http.get("/admin/costs")).status_code

    async with agent() as guest:
        assert await read_costs(guest) == 403
        for document, status in (
            ({"version": 1, "administrators": ["default"]}, 200),
            ({"version": 1, "administrators": ["other"]}, 403),
            ({"version": 1, "administrators": ["default"], "more": 1}, 403),  # An invalid file names nobody.
        ):
            mounted.write(mounted.layout.administrators_file, document)
            await await_until(lambda status=status: equals(read_costs(guest), status), f"{document} counts")


async def test_mounted_file_replaces_the_administrators_of_the_configuration(agent, mounted):
    mounted.write(mounted.layout.administrators_file, {"version": 1, "administrators": []})
    async with agent(**ADMIN) as guest, guest.http() as http:
        assert (await http.get("/admin/costs")).status_code == 403


async def test_tasks_of_all_callers_are_listed_with_request_and_reason(agent, mounted):
    async with agent(**ADMIN) as admin:
        guest = admin.by("client:other")
        asked = await guest.say('Ask the human the question "Which day?", not the password: tomato-soup-99')
        await guest.say("on Monday", taskId=asked["id"])
        await admin.say("Hello there my friend [[fail:401]]", contextId="c")
        waiting = await admin.say('Ask the human the question "Which room?"')
        async with admin.http() as http:
            answer = await http.get("/admin/tasks")
            one = (await http.get("/admin/tasks", params={"owner": "client:other"})).json()["tasks"]
            newest = (await http.get("/admin/tasks", params={"limit": "1"})).json()["tasks"]
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        found = answer.json()["tasks"]
        assert [(each["owner"], each["state"], each["request"].split(",")[0]) for each in found] == [
            ("client:default", "input-required", 'Ask the human the question "Which room?"'),
            ("client:default", "failed", "Hello there my friend [[fail:401]]"),
            ("client:other", "completed", 'Ask the human the question "Which day?"'),
        ]
        assert (newest, one) == (found[:1], found[2:])
        assert found[0]["id"] == waiting["id"]
        assert [each["reason"] for each in found[::2]] == ["Which room?", ""]
        assert "401" in found[1]["reason"]
        assert float(found[2]["costUsd"]) > 0
        assert "tomato" not in answer.text
    listed = [line for line in read_audit_lines(mounted) if line["event"] == "tasks_listed"]
    assert [line["listed_owner"] for line in listed] == ["", "client:other", ""]


@pytest.mark.parametrize(
    ("who", "parameters", "status", "says"),
    [
        pytest.param("client:other", {}, 403, "auth.administrators", id="no administrator"),
        pytest.param("client:other", {"owner": "client:other"}, 403, "auth.administrators", id="the owner"),
        pytest.param("client:default", {"owner": "other"}, 400, "owner must be", id="malformed owner"),
        pytest.param("client:default", {"limit": "0"}, 400, "limit must be", id="no task"),
        pytest.param("client:default", {"limit": "many"}, 400, "limit must be", id="no number"),
        pytest.param("client:default", {"limit": "1001"}, 400, "limit must be", id="too many tasks"),
        pytest.param("client:default", {"state": "failed"}, 400, "There is no parameter", id="unknown"),
    ],
)
async def test_task_list_refuses_other_requests(agent, who, parameters, status, says):
    async with agent(**ADMIN) as admin, admin.by(who).http() as http:
        answer = await http.get("/admin/tasks", params=parameters)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text


WAITER = {
    "name": "waiter",
    "description": "Serves guests.",
    "instructions": "You are the waiter of the house. Be quick.",
    "tools": ["house__book_table"],
}
LEARNING = {**ADMIN, "subAgents": [WAITER], "memory": {"skills": {"enabled": True}}}


async def test_learned_skills_are_listed_forgotten_and_curated(agent, mounted):
    async with agent(**LEARNING) as admin:
        for guest, seats in ((admin, 4), (admin.by("client:other"), 6)):
            await guest.say(f'Give a task to the sub-agent waiter: "Book table for {seats}"', contextId="c")
        async with admin.http() as http:
            listed = (await http.get("/admin/skills")).json()["skills"]
            assert [(each["owner"], each["name"], each["tools_used"]) for each in listed] == [
                ("client:default", "waiter-book-table-for-4", ["house__book_table"]),
                ("client:other", "waiter-book-table-for-6", ["house__book_table"]),
            ]
            of_other = {"owner": "client:other"}
            assert (await http.get("/admin/skills", params=of_other)).json()["skills"] == listed[1:]
            plan = (await http.post("/admin/skills/curation", params={"dryRun": "true"})).json()
            assert (plan["dryRun"], [each["kept"] for each in plan["owners"]]) == (
                True,
                [["waiter-book-table-for-4"], ["waiter-book-table-for-6"]],
            )
            one = {**of_other, "name": "waiter-book-table-for-6"}
            other = await http.delete("/admin/skills", params={**one, "owner": "client:default"})
            assert other.status_code == 404
            assert (await http.delete("/admin/skills", params=one)).json() == {"forgotten": listed[1:]}
            assert (await http.delete("/admin/skills", params=one)).status_code == 404
            assert (await http.get("/admin/skills")).json()["skills"] == listed[:1]
            assert (await http.post("/admin/skills/curation")).json()["dryRun"] is False
        lines = read_audit_lines(mounted)
        noted = {line["event"]: line["by"] for line in lines if "by" in line}
        assert noted == {"skill_forgotten": "client:default", "skills_curated": "client:default"}


async def test_skill_is_not_forgotten_without_an_audit_line(agent, mounted):
    async with agent(**LEARNING) as admin:
        await admin.say('Give a task to the sub-agent waiter: "Book table for 4"', contextId="c")
        trail = mounted.layout.memory / "audit/audit.jsonl"
        kept = trail.rename(trail.with_suffix(".kept"))
        trail.mkdir()
        one = {"owner": "client:default", "name": "waiter-book-table-for-4"}
        async with admin.http() as http:
            refused = await http.delete("/admin/skills", params=one)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
            assert len((await http.get("/admin/skills")).json()["skills"]) == 1
            trail.rmdir()
            kept.rename(trail)
            assert (await http.delete("/admin/skills", params=one)).status_code == 200
        assert "skill_forgotten" in trail.read_text()


@pytest.mark.parametrize(
    ("method", "path", "parameters", "status"),
    [
        pytest.param("GET", "", {"owner": "nobody"}, 400, id="no owner"),
        pytest.param("DELETE", "", {"owner": "client:a"}, 400, id="no name"),
        pytest.param("POST", "/curation", {"dryRun": "perhaps"}, 400, id="no boolean"),
        pytest.param("POST", "/curation", {}, 409, id="the agent learns nothing"),
    ],
)
async def test_skill_endpoints_refuse_invalid_requests(agent, method, path, parameters, status):
    async with agent(**ADMIN) as admin, admin.http() as http:
        assert (await http.request(method, f"/admin/skills{path}", params=parameters)).status_code == status
    async with agent(**ADMIN) as admin, admin.by("client:other").http() as http:
        assert (await http.request(method, f"/admin/skills{path}", params=parameters)).status_code == 403
