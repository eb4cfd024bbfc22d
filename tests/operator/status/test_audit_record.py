"""The recorded end of an agent's audit trail: when it is written, and what is reported when lines are lost."""

import pytest

from fleetwright_operator.status.agent_report import AuditReport
from fleetwright_operator.status.audit_record import RECORD_SECONDS, lost_lines, record_of
from fleetwright_operator.status.report_parser import parse_report

A, B, C = "a" * 64, "b" * 64, "c" * 64
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
RECORD = {"lines": 5, "hash": A, "process": "01", "recordedAt": NOW}


def report(lines, digest, process="01", resumed=(0, "0" * 64)):
    return AuditReport(lines=lines, hash=digest, process=process, resumed_lines=resumed[0], resumed_hash=resumed[1])


@pytest.mark.parametrize(
    ("previous", "said", "now", "wanted"),
    [
        pytest.param(None, None, NOW, None, id="no trail yet"),
        pytest.param(None, report(5, A), NOW, RECORD, id="the first report"),
        pytest.param(RECORD, None, LATER, RECORD, id="an agent that was not read"),
        pytest.param(RECORD, report(5, A), LATER, RECORD, id="no new lines are no write"),
        pytest.param(RECORD, report(9, B), "2026-01-01T00:09:59Z", RECORD, id="new lines within ten minutes"),
        pytest.param(
            RECORD, report(9, B), LATER, {**RECORD, "lines": 9, "hash": B, "recordedAt": LATER}, id="new lines later"
        ),
        pytest.param(
            RECORD,
            report(9, B, "02", (8, C)),
            NOW,
            {"lines": 9, "hash": B, "process": "02", "recordedAt": NOW},
            id="another process that resumed a longer trail",
        ),
        pytest.param(RECORD, report(5, A, "02", (5, A)), LATER, RECORD, id="another process that has written nothing"),
        pytest.param(
            RECORD, report(9, B, "02", (3, C)), LATER, {**RECORD, "lostAt": LATER}, id="resumed with fewer lines"
        ),
        pytest.param(
            RECORD, report(9, B, "02", (5, C)), LATER, {**RECORD, "lostAt": LATER}, id="resumed with another last line"
        ),
        pytest.param(RECORD, report(2, C), LATER, {**RECORD, "lostAt": LATER}, id="fewer lines in the same process"),
        pytest.param(
            {**RECORD, "lostAt": NOW}, report(99, B), LATER, {**RECORD, "lostAt": NOW}, id="a loss that nobody accepted"
        ),
    ],
)
def test_audit_record_follows_the_reports(previous, said, now, wanted):
    assert record_of(previous, said, acknowledged="", now=now) == wanted
    assert (lost_lines(wanted) is None) == ("lostAt" not in (wanted or {}))


def test_audit_record_restarts_after_an_acknowledged_loss():
    lost = {**RECORD, "lostAt": NOW}
    assert record_of(lost, report(9, B), acknowledged=A[:12], now=LATER) == {
        **RECORD,
        "lines": 9,
        "hash": B,
        "recordedAt": LATER,
    }
    assert record_of(lost, report(9, B), acknowledged=B[:12], now=LATER) == lost
    assert RECORD_SECONDS == 600


AUDIT = {"lines": 5, "hash": A, "process": "01", "resumed": {"lines": 0, "hash": "0" * 64}}


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        pytest.param(AUDIT, report(5, A), id="all that fits"),
        pytest.param(None, None, id="nothing"),
        pytest.param({**AUDIT, "resumed": None}, None, id="no beginning"),
        pytest.param({**AUDIT, "lines": True}, None, id="lines that are no number"),
        pytest.param({**AUDIT, "lines": -1}, None, id="lines below zero"),
        pytest.param({**AUDIT, "hash": "x" * 64}, None, id="a hash of other characters"),
        pytest.param({**AUDIT, "process": "p" * 99}, None, id="a process of another shape"),
    ],
)
def test_audit_report_is_accepted_completely_or_ignored(told, wanted):
    assert parse_report({"audit": told}).audit == wanted


@pytest.fixture
async def poet(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    template = api.find("Deployment", "poet")["spec"]["template"]["metadata"]
    api.put({"kind": "Pod", "metadata": {"name": "p1", "namespace": "shop", **template}})
    await world.settle()
    return world


@pytest.fixture
def tell(poet, api):
    """Return a function that reports for the agent's pod, and waits until the operator has handled the report."""

    async def report_status(**document):
        status = api.find("Agent", "poet")["status"]
        told = {"revision": status["revision"], "cardDigest": status["card"]["digest"], **document}
        poet.manager.report_handler.handle(poet.manager.cache.get("Pod", "shop", "p1"), told)
        await poet.settle()

    return report_status


async def test_audit_trail_cut_is_a_condition_until_acknowledged(poet, api, tell):
    await tell(audit={**AUDIT, "lines": 5})
    assert api.find("Agent", "poet")["status"]["auditTrail"]["lines"] == 5
    await tell(audit={"lines": 7, "hash": B, "process": "02", "resumed": {"lines": 3, "hash": C}})
    status, reason, message = poet.conditions("Agent", "poet")["AuditTrailCut"]
    assert (status, reason) == ("True", "EndMissing")
    assert f"--expect 5:{A}" in message
    body = api.find("Agent", "poet")
    body["metadata"].setdefault("annotations", {})["fleetwright.dev/audit-acknowledged"] = A[:12]
    api.put(body)
    await poet.settle()
    assert "AuditTrailCut" not in poet.conditions("Agent", "poet")
    assert api.find("Agent", "poet")["status"]["auditTrail"]["lines"] == 7


async def test_audit_lines_of_the_same_process_cause_no_write(poet, api, tell):
    await tell(audit=AUDIT)
    before = api.find("Agent", "poet")["metadata"]["resourceVersion"]
    for lines in range(6, 20):
        await tell(audit={**AUDIT, "lines": lines, "hash": f"{lines:064x}"})
    assert api.find("Agent", "poet")["metadata"]["resourceVersion"] == before
