"""The tree of a team, its suspension and its bundle, on plain objects."""

from contextlib import nullcontext

import click
import pytest
import yaml

from fleetwright_cli.team import command
from fleetwright_cli.team.agent_status import running_tasks
from fleetwright_cli.team.bundle import config_maps_of, document, portable, secrets_of
from fleetwright_cli.team.tree import members, render, stay_suspended, tops


def agent(name, parent=None, *, suspend=False, suspend_team=False, **status):
    fleet = ({"parent": {"name": parent}} if parent else {}) | ({"suspendTeam": True} if suspend_team else {})
    spec = {"instructions": "Help."} | ({"fleet": fleet} if fleet else {}) | ({"suspend": True} if suspend else {})
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "namespace": "n", "generation": 1},
        "spec": spec,
        "status": {"observedGeneration": 1, **status},
    }


READY = [{"type": "Ready", "status": "True", "reason": "Available"}]


@pytest.mark.parametrize(
    ("agents", "wanted"),
    [
        pytest.param([], [], id="no agents"),
        pytest.param([agent("b"), agent("a")], ["a", "b"], id="agents without a parent, sorted"),
        pytest.param([agent("b", "a"), agent("a")], ["a"], id="a child is no top"),
        pytest.param([agent("b", "gone")], ["b"], id="a missing parent makes a top"),
        pytest.param([agent("a", "b"), agent("b", "a"), agent("c", "a")], ["a"], id="one agent of each cycle"),
        pytest.param([agent("a", "a")], ["a"], id="an agent that is its own parent"),
    ],
)
def test_tops_are_agents_without_an_existing_parent(agents, wanted):
    assert [top["metadata"]["name"] for top in tops(agents)] == wanted


def test_members_of_a_cycle_are_each_listed_once():
    agents = [agent("a", "c"), agent("b", "a"), agent("c", "b")]
    assert [member.name for member in members(agents[0], agents)] == ["a", "b", "c"]


def test_tree_is_drawn_with_phase_and_readiness():
    agents = [
        agent("lead", phase="Running", conditions=READY),
        agent("one", "lead", phase="Asleep", conditions=[{**READY[0], "reason": "Asleep"}]),
        agent("below", "one"),
        agent("two", "lead", phase="Running", conditions=READY),
    ]
    assert render(list(members(agents[0], agents))).splitlines() == [
        "NAME         PHASE    READY    REASON",
        "lead         Running  True     Available",
        "├─ one       Asleep   True     Asleep",
        "│  └─ below  -        Unknown  -",
        "└─ two       Running  True     Available",
    ]


def test_tree_cannot_control_the_terminal():
    hostile = {"phase": "Run\x1b[2Jning", "reason": "a\nb\u202e"}
    agents = [agent("lead", **hostile)]
    assert render(list(members(agents[0], agents))).splitlines()[1] == "lead  Run\ufffd[2Jning  Unknown  a b\ufffd"


SUSPENDED = {"phase": "Suspended", "conditions": [{**READY[0], "status": "False", "reason": "Suspended"}]}
SUSPENDING = {"phase": "Suspended", "conditions": [{**READY[0], "status": "False", "reason": "Suspending"}]}
RUNNING = {"phase": "Running", "conditions": READY}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        pytest.param({**RUNNING, "activity": {"runningTasks": 2}}, 2, id="running"),
        pytest.param(RUNNING, None, id="running without a report"),
        pytest.param({"phase": "Asleep", "activity": {"runningTasks": 2}}, 0, id="asleep"),
        pytest.param({**SUSPENDED, "activity": {"runningTasks": 2}}, 0, id="suspended"),
        pytest.param({**SUSPENDING, "activity": {"runningTasks": 2}}, 2, id="a pod that finishes its tasks"),
        pytest.param(SUSPENDING, None, id="a pod that finishes its tasks, without a report"),
    ],
)
def test_running_tasks_counts_those_of_a_pod_that_ends(status, wanted):
    assert running_tasks(agent("a", **status)) == wanted


@pytest.mark.parametrize(
    ("agents", "wanted"),
    [
        pytest.param([agent("a"), agent("b", "a")], set(), id="none"),
        pytest.param([agent("a"), agent("b", "a", suspend=True), agent("c", "b")], {"b"}, id="only itself"),
        pytest.param([agent("a"), agent("b", "a", suspend_team=True), agent("c", "b")], set(), id="not suspended"),
        pytest.param(
            [agent("a"), agent("b", "a", suspend=True, suspend_team=True), agent("c", "b"), agent("d", "c")],
            {"b", "c", "d"},
            id="with its team",
        ),
        pytest.param(
            [agent("a", "c"), agent("b", "a"), agent("c", "b", suspend=True, suspend_team=True)], {"c"}, id="a cycle"
        ),
    ],
)
def test_stay_suspended_includes_members_below(agents, wanted):
    assert stay_suspended(list(members(agents[0], agents))) == wanted


class Cluster:
    """A cluster whose agents have the next of some lists of statuses at each read."""

    namespace = "n"

    def __init__(self, agents, *steps):
        self.agents = {each["metadata"]["name"]: each for each in agents}
        self.steps = list(steps)
        self.patches = []

    def merge(self, kind, name, patch):
        self.patches.append((name, patch))
        agent = self.agents[name]
        self.agents[name] = {**agent, "metadata": {**agent["metadata"], "generation": 2}}

    def list(self, kind):
        changes = self.steps.pop(0) if self.steps else {}
        for name, status in changes.items():
            observed = {"observedGeneration": self.agents[name]["metadata"]["generation"]}
            self.agents[name] = {**self.agents[name], "status": {**observed, **status}}
        return list(self.agents.values())


class Waits:
    """The pauses of a command. Time passes only in them."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    @property
    def timing(self) -> command.Timing:
        return command.Timing(sleep=self.pauses.append, monotonic=lambda: sum(self.pauses))


def test_suspend_waits_until_pods_have_ended(capsys):
    team = [agent("lead", **RUNNING), agent("one", "lead", **RUNNING)]
    steps = [{}, {"lead": SUSPENDED, "one": SUSPENDING}, {}, {"one": SUSPENDED}]
    cluster, waits = Cluster(team, *steps), Waits()
    command.suspend(cluster, "lead", wait=60, timing=waits.timing)
    assert (len(waits.pauses), cluster.steps) == (3, [])
    assert capsys.readouterr().out.startswith("Suspended lead and its team of 2.")
    assert cluster.patches == [("lead", {"spec": {"suspend": True, "fleet": {"suspendTeam": True}}})]


def test_suspend_without_wait_reports_a_pod_that_ends(capsys):
    cluster = Cluster([agent("lead", **SUSPENDING)], {"lead": SUSPENDING})
    command.suspend(cluster, "lead", wait=0, timing=Waits().timing)
    assert capsys.readouterr().out.startswith("Suspended lead; the team follows.")


@pytest.mark.parametrize(
    ("children", "step"),
    [
        pytest.param([agent("one", "lead", **SUSPENDED)], {"one": RUNNING}, id="it runs"),
        pytest.param([agent("one", "lead", **SUSPENDED)], {"one": {"phase": "Degraded"}}, id="it is degraded"),
        pytest.param([agent("one", "lead", **SUSPENDED)], {"one": {"phase": "Asleep"}}, id="it sleeps"),
        pytest.param(
            [agent("one", "lead", suspend=True, suspend_team=True, **SUSPENDED), agent("below", "one", **SUSPENDED)],
            {},
            id="a sub-lead that stays suspended with its team",
        ),
    ],
)
def test_resume_waits_for_members_that_can_start(capsys, children, step):
    cluster, waits = Cluster([agent("lead", **SUSPENDED), *children], {}, {"lead": RUNNING, **step}), Waits()
    command.resume(cluster, "lead", wait=60, timing=waits.timing)
    assert len(waits.pauses) == 1
    assert capsys.readouterr().out.startswith("Resumed lead and its team of ")


@pytest.mark.parametrize(
    "child",
    [
        pytest.param(agent("one", "lead", **SUSPENDING), id="suspending"),
        pytest.param(agent("one", "lead", phase="Pending"), id="pending"),
        pytest.param(agent("one", "lead", phase="Failed"), id="failed"),
    ],
)
def test_resume_names_members_that_do_not_start(child):
    cluster = Cluster([agent("lead", **SUSPENDED), child], {"lead": RUNNING})
    with pytest.raises(click.ClickException, match=r"not done after .* one$"):
        command.resume(cluster, "lead", wait=2, timing=Waits().timing)


UNRESOLVED = [
    {"type": "Accepted", "status": "True", "reason": "Valid"},
    {"type": "ReferencesResolved", "status": "False", "reason": "McpServerNotFound", "message": "no McpServer 'x'"},
    {"type": "Ready", "status": "False", "reason": "McpServerNotFound"},
]
REASON = "stays as it is until its spec is repaired: ReferencesResolved is False (McpServerNotFound): no McpServer 'x'"


@pytest.mark.parametrize(
    ("status", "lead", "blocked"),
    [
        pytest.param({"phase": "Failed", "conditions": UNRESOLVED}, SUSPENDED, ["one"], id="a member that failed"),
        pytest.param({"phase": "Blocked", "conditions": UNRESOLVED}, SUSPENDED, ["one"], id="a member that serves"),
        pytest.param(SUSPENDED, {"phase": "Blocked", "conditions": UNRESOLVED}, ["lead"], id="the lead"),
    ],
)
@pytest.mark.parametrize("wait", [pytest.param(0, id="without waiting"), pytest.param(60, id="waiting")])
def test_suspend_names_the_reason_of_a_member_whose_spec_cannot_be_applied(capsys, status, lead, blocked, wait):
    team = [agent("lead", **RUNNING), agent("one", "lead", **status)]
    cluster, waits = Cluster(team, {}, {"lead": lead}), Waits()
    with pytest.raises(click.ClickException, match=r"^not done after 1 s: ") if wait else nullcontext():
        command.suspend(cluster, "lead", wait=wait, timing=waits.timing)
    assert len(waits.pauses) == 1
    told = capsys.readouterr()
    assert told.out.startswith("Suspended lead; the team follows.")
    assert told.err.splitlines() == [f"{name} {REASON}" for name in blocked]


def test_suspend_waits_for_a_member_that_crashes(capsys):
    crashed = {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "reason": "CrashLoop"}]}
    team = [agent("lead", **RUNNING), agent("one", "lead", **crashed)]
    cluster, waits = Cluster(team, {"lead": SUSPENDED}, {"one": SUSPENDED}), Waits()
    command.suspend(cluster, "lead", wait=0, timing=waits.timing)
    assert (len(waits.pauses), capsys.readouterr().err) == (1, "")


PENDING = {"phase": "Pending"}


@pytest.mark.parametrize(
    ("run", "before", "steps", "shown", "pauses"),
    [
        pytest.param(command.resume, SUSPENDED, [{}, {"lead": PENDING}, {"one": PENDING}], "Pending", 2, id="resume"),
        pytest.param(
            command.suspend, RUNNING, [{}, {"lead": SUSPENDED}, {"one": SUSPENDING}], "Suspended", 2, id="suspend"
        ),
        pytest.param(command.resume, SUSPENDED, [], "Suspended", 10, id="the operator does not react"),
    ],
)
def test_team_is_printed_as_it_is_after_the_change(capsys, run, before, steps, shown, pauses):
    team = [agent("lead", **before), agent("one", "lead", **before)]
    cluster, waits = Cluster(team, *steps), Waits()
    run(cluster, "lead", wait=0, timing=waits.timing)
    told = capsys.readouterr()
    assert [line.split()[-3] for line in told.out.splitlines()[2:]] == [shown, shown]
    assert len(waits.pauses) == pauses
    assert ("The operator did not react for lead, one within 10 s." in told.err) is (not steps)


def test_wait_ends_after_its_seconds_if_the_operator_does_not_react(capsys):
    cluster, waits = Cluster([agent("lead", **SUSPENDED)]), Waits()
    with pytest.raises(click.ClickException, match=r"^not done after 5 s: lead$"):
        command.resume(cluster, "lead", wait=5, timing=waits.timing)
    assert len(waits.pauses) == 5
    assert "The operator did not react for lead within 5 s." in capsys.readouterr().err


def test_portable_manifest_keeps_only_what_a_user_writes():
    body = agent("a", "lead")
    body["metadata"] |= {
        "namespace": "here",
        "uid": "1",
        "resourceVersion": "2",
        "managedFields": [],
        "labels": {"team": "x"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "fleetwright.dev/wake": "2026-01-01T00:00:00Z",
            "owner": "me",
        },
    }
    assert portable(body) == {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "a", "labels": {"team": "x"}, "annotations": {"owner": "me"}},
        "spec": {"instructions": "Help.", "fleet": {"parent": {"name": "lead"}}},
    }


@pytest.mark.parametrize(
    ("spec", "secrets", "config_maps"),
    [
        pytest.param({"model": {"apiKeySecretRef": {"name": "s", "key": "k"}}}, ["s"], [], id="a key of a model"),
        pytest.param(
            {"model": {"headersFrom": [{"name": "X-Key", "secretKeyRef": {"name": "h", "key": "k"}}]}},
            ["h"], [], id="a header",
        ),
        pytest.param({"instructionsFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, [], ["c"], id="a prompt"),
        pytest.param({"source": {"configMap": {"name": "files"}}}, [], ["files"], id="the files of a skill"),
        pytest.param({"imagePullSecrets": [{"name": "pull"}]}, ["pull"], [], id="credentials of a registry"),
        pytest.param(
            {"podTemplate": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]}}},
            ["mounted"], [], id="a volume of a pod template",
        ),
        pytest.param({"instructions": "Read the secretRef of x."}, [], [], id="a text that mentions a reference"),
    ],
)  # fmt: skip
def test_references_to_secrets_and_config_maps_are_found(spec, secrets, config_maps):
    assert secrets_of([{"spec": spec}]) == secrets
    assert config_maps_of([{"spec": spec}]) == config_maps


def test_document_orders_kinds_below_its_comment():
    lead = portable(agent("lead"))
    child = portable(agent("child", "lead"))
    skill = {**lead, "kind": "Skill", "metadata": {"name": "s"}, "spec": {}}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    text = document([lead, child, skill, files], ["Create:", "Secret: provider"])
    assert text.startswith("# Create:\n# Secret: provider\n")
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(text)] == ["c", "s", "lead", "child"]
