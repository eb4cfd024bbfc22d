"""The report of costs and the learned skills for administrators, over HTTP."""

import time

import pytest
from tests.support.agent.reports import read_audit_lines

ADMIN = {"administrators": ["default"]}


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
