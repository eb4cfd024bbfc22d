"""The table of Approvals and decisions about them, on plain objects."""

import json
import re
from datetime import UTC, datetime
from importlib.metadata import entry_points

import click
import pytest

from fleetwright_cli.approvals import command
from fleetwright_cli.approvals.decision import Decision, delivery, first_decision, is_the_same, obstacle, read_arguments
from fleetwright_cli.approvals.table import decided_at, describe_approval, ordered, rows
from fleetwright_cli.cluster.tables import age, render, widths_of

NOW = datetime(2026, 3, 1, 12, 1, 30, tzinfo=UTC)
ALICE = Decision("Approved", "alice")


def approval(
    name="clerk-1",
    *,
    phase="Pending",
    created="2026-03-01T12:00:00Z",
    conditions=(),
    decided="",
    request=None,
    generation=1,
    observed=1,
    **spec,
):
    asked = {
        "agent": "clerk", "task": "t", "context": "c", "ask": "a", "tool": "orders__refund", "title": "Refund order 7",
        "preview": "20 EUR", "arguments": {"order": 7}, "argumentsDigest": f"sha256:{'a' * 64}",
        "requestedBy": "user:bob", "chain": [], "forbiddenDeciders": ["system:serviceaccount:shop:clerk"],
        "createdAt": created,
    }  # fmt: skip
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Approval",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "creationTimestamp": created,
            "resourceVersion": "1",
            "generation": generation,
        },
        "spec": {"request": {**asked, **(request or {})}, **spec},
        "status": {
            "phase": phase,
            "observedGeneration": observed,
            "conditions": list(conditions),
            **({"decided": decided} if decided else {}),
        },
    }


DECIDED = {"type": "Decided", "status": "True", "reason": "Approved"}
AT = "2026-03-01T12:00:30Z"
DONE = approval(
    phase="Approved", conditions=[DECIDED], decided=AT, decision="Approved", decidedBy="alice", reason="fine"
)


def test_table_lists_what_waits_first():
    found = ordered(
        [
            {**DONE, "metadata": {**DONE["metadata"], "name": "clerk-0"}},
            approval("clerk-2", created="2026-03-01T12:01:00Z"),
            approval("clerk-1", request={"expiresAt": "2026-03-02T12:02:00Z"}),
        ]
    )
    lines = render(rows(found, now=NOW, with_namespace=True)).splitlines()
    call = ["clerk", "orders__refund", "Refund order 7", "user:bob"]
    assert [re.split(" {3,}", line) for line in lines] == [
        ["NAMESPACE", "NAME", "AGENT", "TOOL", "TITLE", "REQUESTED-BY", "PHASE", "DECIDED-BY", "EXPIRES", "AGE"],
        ["shop", "clerk-1", *call, "Pending", "-", "24h", "90s"],
        ["shop", "clerk-2", *call, "Pending", "-", "-", "30s"],
        ["shop", "clerk-0", *call, "Approved", "alice", "-", "90s"],
    ]
    table = rows(found[:1], now=NOW, with_namespace=False)
    assert "NAMESPACE" not in render(table)
    assert len(render(table, widths=[20] * len(widths_of(table))).splitlines()[0]) > 100


def test_show_prints_the_call_the_decision_and_the_answer_of_the_agent():
    delivered = {"type": "Delivered", "status": "True", "reason": "Accepted", "message": "the agent continues"}
    body = approval(
        phase="Approved",
        conditions=[DECIDED, delivered],
        decided=AT,
        decision="Approved",
        decidedBy="alice",
        reason="fine",
        arguments={"order": 8},
        request={
            "chain": ["agent:shop/front"],
            "preview": "20 EUR\n\x1b[2Jto bob",
            "expiresAt": "2026-03-02T12:00:00Z",
        },
    )
    assert describe_approval(body, now=NOW).splitlines() == [
        "Name:             clerk-1",
        "Agent:            clerk",
        "Tool:             orders__refund",
        "Title:            Refund order 7",
        "Requested by:     user:bob via agent:shop/front",
        "Phase:            Approved",
        "Created:          2026-03-01T12:00:00Z (90s ago)",
        "Expires:          2026-03-02T12:00:00Z",
        "May not decide:   system:serviceaccount:shop:clerk",
        "Task:             t",
        "Decision:         Approved by alice at 2026-03-01T12:00:30Z",
        "Reason:           fine",
        "Delivered:        True (Accepted) the agent continues",
        "",
        "Preview:",
        "  20 EUR",
        "  \ufffd[2Jto bob",
        "",
        "Arguments:",
        "  {",
        '    "order": 7',
        "  }",
        "",
        "Edited arguments:",
        "  {",
        '    "order": 8',
        "  }",
        "",
        "The log of the task: kubectl fleetwright logs t",
    ]


def test_show_says_that_arguments_are_hidden():
    body = approval()
    del body["spec"]["request"]["arguments"]
    assert "Arguments:\n  too long, or with secrets: not shown" in describe_approval(body, now=NOW)


def test_table_hides_what_a_terminal_would_interpret():
    body = approval(request={"title": "\x1b[2J" + "x" * 80, "agent": "a\u202eb"})
    text = render(rows([body], now=NOW, with_namespace=False))
    assert text.isprintable() is False  # the line feed between head and row
    assert all(line.isprintable() for line in text.splitlines())
    assert "…" in text


@pytest.mark.parametrize(
    ("created", "shown"),
    [
        pytest.param("2026-03-01T12:01:30Z", "0s", id="now"),
        pytest.param("2026-03-01T12:02:30Z", "0s", id="a clock that is late"),
        pytest.param("2026-03-01T11:31:30Z", "30m", id="half an hour"),
        pytest.param("2026-02-27T12:01:30Z", "2d", id="days"),
        pytest.param("", "-", id="unknown"),
    ],
)
def test_age_has_one_unit(created, shown):
    assert age(created, NOW) == shown


def test_decided_at_falls_back_to_the_managed_field():
    manager = {"time": "2026-03-01T12:00:20Z", "fieldsV1": {"f:spec": {"f:decision": {}}}}
    body = approval(decision="Approved", decidedBy="alice")
    assert decided_at(body) == ""
    assert decided_at({**body, "metadata": {**body["metadata"], "managedFields": [manager]}}) == "2026-03-01T12:00:20Z"
    assert first_decision(DONE) == "Approved by alice at 2026-03-01T12:00:30Z (fine)"


@pytest.mark.parametrize(
    ("body", "decision", "says"),
    [
        pytest.param(approval(), ALICE, "", id="it waits"),
        pytest.param(DONE, Decision("Denied", "bob"), "decided already: Approved by alice at 2026", id="decided"),
        pytest.param(approval(phase="Withdrawn"), ALICE, "no longer waits for a decision", id="withdrawn"),
        pytest.param(
            approval(),
            Decision("Approved", "system:serviceaccount:shop:clerk"),
            "may not decide",
            id="the agent itself",
        ),
        pytest.param(
            approval(request={"arguments": None}),
            Decision("Approved", "alice", None, {}),
            "Omit --arguments",
            id="hidden",
        ),
    ],
)
def test_obstacle_names_the_reason_and_the_remedy(body, decision, says):
    problem = obstacle(body, decision)
    assert says in problem
    assert bool(problem) is bool(says)


def added(**fields):
    """Return the JSON Patch that sets these fields of a spec."""
    return [{"op": "add", "path": f"/spec/{name}", "value": value} for name, value in fields.items()]


WITH_NULLS = {"order": 8, "limit": None, "filter": {"until": None, "from": [None, {"at": None}]}}


@pytest.mark.parametrize(
    ("decision", "fields"),
    [
        pytest.param(ALICE, {"decision": "Approved", "decidedBy": "alice"}, id="approved"),
        pytest.param(
            Decision("Denied", "bob", "no"),
            {"decision": "Denied", "decidedBy": "bob", "reason": "no"},
            id="denied with a reason",
        ),
        pytest.param(
            Decision("Approved", "alice", "half", WITH_NULLS),
            {"decision": "Approved", "decidedBy": "alice", "reason": "half", "arguments": WITH_NULLS},
            id="arguments with nulls",
        ),
        pytest.param(
            Decision("Approved", "alice", None, {}),
            {"decision": "Approved", "decidedBy": "alice", "arguments": {}},
            id="empty arguments",
        ),
    ],
)
def test_decision_is_a_patch_of_a_persons_fields(decision, fields):
    assert decision.patch == added(**fields)
    assert is_the_same(approval(**fields), decision)
    assert not is_the_same(approval(**fields), Decision("Approved", "carol"))


def test_nulls_in_the_arguments_make_another_decision():
    fields = {"decision": "Approved", "decidedBy": "alice", "arguments": {"order": 8}}
    assert not is_the_same(approval(**fields), Decision("Approved", "alice", None, {"order": 8, "limit": None}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"order": 8, "deep": [1, null]}', {"order": 8, "deep": [1, None]}, id="JSON"),
        pytest.param("order: 8\n", {"order": 8}, id="YAML"),
    ],
)
def test_read_arguments_accepts_json_and_yaml(text, value):
    assert read_arguments(text, "f") == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[1]", "must be one object", id="a list"),
        pytest.param("{", "not JSON or YAML", id="half of it"),
        pytest.param("when: 2026-03-01\n", "not JSON or YAML with JSON values", id="a date"),
        pytest.param("much: .inf\n", "not JSON or YAML with JSON values", id="infinity"),
        pytest.param("[" * 10_000, "not JSON or YAML", id="nested too deeply"),
        pytest.param("", "must be one object", id="nothing"),
    ],
)
def test_read_arguments_names_the_file_and_the_remedy(text, says):
    with pytest.raises(ValueError, match=f"^f: .*{says}"):
        read_arguments(text, "f")


class Cluster:
    """A cluster with one Approval, on which another person may decide first.

    Args:
        refusal: The error of every patch. The Approval is `then` afterwards.
        statuses: The statuses that the operator writes after the decision, one before each read.
    """

    namespace = "shop"

    def __init__(self, body, *, refusal="", then=None, statuses=()):
        self.body = body
        self.refusal = refusal
        self.then = then
        self.statuses = list(statuses)
        self.patches = []

    def username(self):
        return "alice"

    def get(self, kind, name):
        if self.patches and self.statuses:
            self.body = {**self.body, "status": self.statuses.pop(0)}
        return self.body

    def list(self, kind, *, everywhere=False):
        return [self.body]

    def watch(self, kind, *, everywhere=False):
        yield self.body
        yield {**self.body, "metadata": {**self.body["metadata"], "resourceVersion": "2"}}

    def json_patch(self, kind, name, operations):
        self.patches.append(operations)
        if self.refusal:
            self.body = self.then or self.body
            raise click.ClickException(self.refusal)
        assert {each["op"] for each in operations} == {"add"}
        changes = {each["path"].removeprefix("/spec/"): each["value"] for each in operations}
        metadata = {**self.body["metadata"], "generation": self.body["metadata"]["generation"] + 1}
        self.body = {**self.body, "metadata": metadata, "spec": {**self.body["spec"], **changes}}
        return self.body


def test_approve_sends_one_patch_and_tells_the_decision(capsys):
    cluster = Cluster(approval())
    command.approve(cluster, "clerk-1", reason="fine", file=None, wait=0)
    command.approve(cluster, "clerk-1", reason="fine", file=None, wait=0)
    assert cluster.patches == [added(decision="Approved", decidedBy="alice", reason="fine")]
    assert capsys.readouterr().out == "clerk-1: Approved by alice (fine)\n" * 2


def test_approve_keeps_nulls_of_the_arguments_file(tmp_path):
    file = tmp_path / "arguments.json"
    file.write_text(json.dumps(WITH_NULLS))
    cluster = Cluster(approval())
    for _ in range(2):
        command.approve(cluster, "clerk-1", reason=None, file=file, wait=0)
    assert cluster.body["spec"]["arguments"] == WITH_NULLS
    assert len(cluster.patches) == 1


def test_second_decision_tells_who_decided_and_when():
    with pytest.raises(click.ClickException, match="Approved by alice at 2026-03-01T12:00:30Z"):
        command.deny(Cluster(DONE), "clerk-1", reason="no", wait=0)
    # Another person decides between the read and the patch.
    late = Cluster(approval(), refusal="refused", then=DONE)
    with pytest.raises(click.ClickException, match="decided already: Approved by alice at 2026-03-01T12:00:30Z"):
        command.deny(late, "clerk-1", reason="no", wait=0)
    with pytest.raises(click.ClickException, match="no permission"):
        command.deny(Cluster(approval(), refusal="no permission"), "clerk-1", reason="no", wait=0)


ACCEPTED = {"type": "Delivered", "status": "True", "reason": "Accepted", "message": "the agent has accepted it"}
WAITING = {**ACCEPTED, "status": "False", "reason": "Delivering", "message": "not delivered yet"}


def test_approve_waits_for_the_answer_of_the_agent(capsys):
    done = {
        **DONE,
        "status": {**DONE["status"], "conditions": [DECIDED, ACCEPTED], "delivered": "2026-03-01T12:00:31Z"},
    }
    command.approve(Cluster(done), "clerk-1", reason="fine", file=None, wait=5)
    assert "Approved was accepted by the agent." in capsys.readouterr().out
    refused = {**ACCEPTED, "status": "False", "reason": "InvalidEdit", "message": "order: too big"}
    body = approval(conditions=[DECIDED, refused], decision="Approved", decidedBy="alice")
    with pytest.raises(click.ClickException, match="order: too big"):
        command.approve(Cluster(body), "clerk-1", reason=None, file=None, wait=5)


REFUSED_EDIT = {**ACCEPTED, "status": "False", "reason": "InvalidEdit", "message": "order: too big; decide again"}
TOO_LATE = {**ACCEPTED, "status": "False", "reason": "DecidedBefore", "message": "bob had already decided Denied"}
NOT_YET = "the operator has not delivered the decision yet"


@pytest.mark.parametrize(
    ("condition", "observed", "wanted"),
    [
        pytest.param(None, 3, (False, NOT_YET), id="no condition"),
        pytest.param(REFUSED_EDIT, 2, (False, NOT_YET), id="the refusal of an earlier decision"),
        pytest.param(REFUSED_EDIT, -1, (False, NOT_YET), id="the default status"),
        pytest.param(WAITING, 3, (False, "not delivered yet"), id="the agent has not answered"),
        pytest.param(ACCEPTED, 3, (True, ACCEPTED["message"]), id="accepted"),
        pytest.param(REFUSED_EDIT, 3, (True, REFUSED_EDIT["message"]), id="refused"),
        pytest.param(REFUSED_EDIT, 4, (True, REFUSED_EDIT["message"]), id="refused, and the operator has cleared it"),
        pytest.param(TOO_LATE, 3, (True, TOO_LATE["message"]), id="another decision was first"),
    ],
)
def test_delivery_ignores_the_status_of_earlier_generations(condition, observed, wanted):
    body = approval(conditions=[condition] if condition else [], generation=3, observed=observed)
    assert delivery(body, generation=3) == wanted


def status(condition, observed, *, phase="Pending", **more):
    return {"phase": phase, "observedGeneration": observed, "conditions": [condition], **more}


@pytest.mark.parametrize(
    ("last", "says"),
    [
        pytest.param(
            status(ACCEPTED, 4, phase="Approved", delivered="2026-03-01T12:02:00Z"),
            "Approved was accepted by the agent.",
            id="accepted",
        ),
        pytest.param(
            status({**REFUSED_EDIT, "message": "order: too small; decide again"}, 4), "too small", id="refused again"
        ),
        pytest.param(status(TOO_LATE, 4, phase="Denied"), "bob had already decided", id="too late"),
    ],
)
def test_second_decision_waits_for_its_own_answer(capsys, last, says):
    """The operator keeps the condition of a refused edit until it has delivered the next decision."""
    stale = status(REFUSED_EDIT, 3)
    delivering = status(WAITING, 4, phase="Approved")
    body = approval(conditions=[REFUSED_EDIT], generation=3, observed=3)
    cluster = Cluster(body, statuses=[stale, stale, delivering, last])
    pauses = []
    if "delivered" in last:
        command.approve(cluster, "clerk-1", reason=None, file=None, wait=10, sleep=pauses.append)
        assert says in capsys.readouterr().out
    else:
        with pytest.raises(click.ClickException, match=says):
            command.approve(cluster, "clerk-1", reason=None, file=None, wait=10, sleep=pauses.append)
    assert (len(pauses), cluster.statuses) == (3, [])


def test_show_watches_changes_in_the_columns_of_the_table(capsys):
    command.show(Cluster(approval()), "text", everywhere=False, watch=True, now=lambda: NOW)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.startswith("NAME")
    assert first == second


def test_program_is_also_a_kubectl_plugin():
    scripts = {each.name: each.value for each in entry_points(group="console_scripts")}
    assert scripts["kubectl-fleetwright"] == scripts["fleetwright"] == "fleetwright_cli.__main__:main"
