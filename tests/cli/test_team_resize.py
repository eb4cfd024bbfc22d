"""Sub-agents that become agents of a team, and back, on plain objects and with a cluster in memory."""

import json

import click
import httpx
import pytest
import yaml

from fleetwright_cli.team.collapse_command import collapse
from fleetwright_cli.team.expand_command import expand
from fleetwright_cli.team.expansion import expansion
from fleetwright_cli.team.handoff import REQUEST, request_handoff
from fleetwright_cli.team.merged_sub_agents import merged_sub_agents, sub_agent_of
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, FixedEndpoint
from fleetwright_cli.terminal.transport.errors import AgentUnreachable, RequestError

READER = {
    "name": "reader",
    "description": "Reads orders",
    "instructions": "You read.",
    "tools": ["orders__look_up", "orders__refund", "load_skill", "read_skill_file"],
    "timeout": "2m",
    "maxModelCalls": 7,
}
CLERK = {"name": "clerk", "description": "Writes", "instructions": "You write.", "model": {"name": "small"}}
RATE = {"max": 9, "window": "1h"}
MODEL = {"name": "large", "baseURL": "http://model/v1", "contextWindow": 9000, "apiKeySecretRef": {"name": "key"}}
SPEC = {
    "instructions": "Lead.",
    "model": MODEL,
    "skills": [{"name": "notes"}],
    "mcpServers": [
        {"name": "orders", "tools": {"allow": ["look_up"], "requireApproval": ["refund"]}},
        {"name": "mail"},
    ],
    "approvals": {"tools": ["mail__send", "orders__look_up"], "expiry": "1h"},
    "enforcement": {"deny": ["mail__drop"], "limits": [{"tool": "*", **RATE}, {"tool": "mail__send", **RATE}]},
    "budgets": [{"period": "Day", "usd": "5"}],
    "fleet": {"parent": {"name": "top"}},
    "limits": {"maxToolCalls": 5, "maxModelCalls": 9, "maxTurnSeconds": 200},
    "memory": {"storage": {"size": "2Gi"}, "knowledge": {"enabled": True}},
    "podTemplate": {"spec": {"priorityClassName": "low"}},
    "askHuman": True,
    "subAgents": [READER, CLERK],
}


def agent(name, spec, *, uid="", **status):
    metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-of-{name}", "resourceVersion": "1"}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1", "kind": "Agent", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


LEAD = agent("lead", SPEC)


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "activity": {"runningTasks": 0}}
NO_GATEWAY = {"conditions": [{"type": "FleetIncomplete", "status": "True", "reason": "NoGateway"}]}


class Cluster:
    """Agents in memory, with the methods of the client that the commands use."""

    def __init__(self, *agents, refuses="", status=READY):
        self.agents = {each["metadata"]["name"]: each for each in agents}
        self.namespace, self.context = "n", None
        self.refuses, self.status = refuses, status
        self.writes, self.checked = [], []

    def written(self, write, dry_run):
        if self.refuses == (f"{write} (dry run)" if dry_run else write):
            raise click.ClickException(f"may not {write}")
        assert not (dry_run and self.writes)
        (self.checked if dry_run else self.writes).append(write)

    def get(self, kind, name):
        return self.agents[name]

    def list(self, kind):
        return list(self.agents.values())

    def create(self, manifest, *, dry_run=False):
        name = manifest["metadata"]["name"]
        self.written(f"create {name}", dry_run)
        if not dry_run:
            self.agents[name] = agent(name, manifest["spec"], **self.status)

    def delete(self, kind, name, *, uid, dry_run=False):
        assert self.agents[name]["metadata"]["uid"] == uid
        self.written(f"delete {name}", dry_run)
        if not dry_run:
            del self.agents[name]

    def merge(self, kind, name, patch, *, dry_run=False):
        self.written(f"{'change' if 'spec' in patch else 'wake'} {name}", dry_run)
        if dry_run:
            return
        if "spec" not in patch:
            self.agents[name] = {**self.agents[name], "status": {**READY, "phase": "Degraded"}}
            return
        assert patch["metadata"] == {"resourceVersion": "1"}
        spec = self.agents[name]["spec"] | patch["spec"]
        spec["fleet"] = {**self.agents[name]["spec"].get("fleet", {}), **patch["spec"].get("fleet", {})}
        kept = {key: value for key, value in spec.items() if value is not None}
        self.agents[name] = {**self.agents[name], "spec": kept}


def test_expansion_gives_a_child_the_tools_and_limits_of_its_sub_agent():
    result = expansion(LEAD, SPEC["subAgents"])
    reader, clerk = (child["spec"] for child in result.children)
    assert reader == {
        "description": "Reads orders",
        "instructions": "You read.",
        "model": MODEL,
        "mcpServers": [
            {"name": "orders", "tools": {"allow": ["look_up", "refund"], "requireApproval": ["refund"]}},
        ],
        "skills": [{"name": "notes"}],
        "fleet": {"parent": {"name": "lead"}, "reach": "Direct"},
        "limits": {"maxToolCalls": 5, "maxModelCalls": 7, "maxTurnSeconds": 120},
        "memory": {"storage": {"size": "2Gi"}},
        "podTemplate": {"spec": {"priorityClassName": "low"}},
        "approvals": {"tools": ["orders__look_up"], "expiry": "1h"},
        "enforcement": {"limits": [{"tool": "*", **RATE}]},
        "budgets": [{"period": "Day", "usd": "5"}],
    }
    assert clerk["model"] == {"name": "small", "baseURL": "http://model/v1", "apiKeySecretRef": {"name": "key"}}
    assert "mcpServers" not in clerk
    assert result.lead["spec"]["fleet"] == {"parent": {"name": "top"}, "reach": "Direct"}
    assert "subAgents" not in result.lead["spec"]
    assert clerk["limits"] == {"maxToolCalls": 5, "maxModelCalls": 30, "maxTurnSeconds": 200}
    assert "spec.askHuman, spec.memory.knowledge" in result.notes[1]


def test_expansion_copies_caller_roles_and_notes_the_rest():
    roles = [{"callers": ["user:*"], "role": "ReadOnly"}]
    approvals = {**SPEC["approvals"], "bypassCallers": ["user:ada"]}
    lead = agent("lead", {**SPEC, "callerRoles": roles, "approvals": approvals})
    result = expansion(lead, SPEC["subAgents"])
    assert [child["spec"]["callerRoles"] for child in result.children] == [roles, roles]
    assert "the child sees lead as the caller" in result.notes[1]
    assert "spec.approvals.bypassCallers" in result.notes[2]
    assert not any("bypassCallers" in child["spec"].get("approvals", {}) for child in result.children)


def test_expanded_agents_fold_back_to_the_same_sub_agents():
    result = expansion(LEAD, SPEC["subAgents"])
    folded = [sub_agent_of(agent(child["metadata"]["name"], child["spec"]), LEAD) for child in result.children]
    assert folded == [{**READER, "timeout": "120s"}, {**CLERK, "maxModelCalls": 30, "timeout": "200s"}]


@pytest.mark.parametrize(
    ("changes", "entries", "sentence"),
    [
        pytest.param({"approvals": {"tools": ["task"]}}, None, "spec.approvals.tools refer", id="approved delegation"),
        pytest.param(
            {"enforcement": {"limits": [{"tool": "task", **RATE}]}}, None, "spec.enforcement.limits refer", id="limited"
        ),
        pytest.param(
            {"memory": {"skills": {"subAgents": ["reader"]}}}, None, "memory.skills.subAgents refer", id="learned from"
        ),
        pytest.param({"suspend": True}, None, "spec.suspend is set", id="a suspended lead"),
        pytest.param({}, [{**CLERK, "name": "new", "tools": ["remember"]}], "cannot take over remember", id="memory"),
        pytest.param({}, [{**CLERK, "name": "new", "tools": ["orders__x"]}], "cannot take over", id="a denied tool"),
        pytest.param(
            {}, [{**CLERK, "description": "?"}], "clerk. differs from this sub-agent of Agent lead", id="another clerk"
        ),
        pytest.param({}, [CLERK, CLERK], "clerk. exists twice", id="twice"),
        pytest.param({}, [{**CLERK, "name": "a", "timeout": "soon"}], "a..timeout: 'soon'", id="no duration"),
        pytest.param({}, [{**CLERK, "name": "a", "timeout": "25h"}], "write at most 24h", id="a long time"),
        pytest.param({}, [{**CLERK, "name": "a", "budgets": []}], "a..budgets is not a field", id="unknown field"),
        pytest.param({}, [{**CLERK, "name": "a", "timeout": ""}], "a..timeout: ''", id="an empty time"),
        pytest.param(
            {},
            [{**CLERK, "name": "a", "model": {**CLERK["model"], "baseURL": "http://b"}}],
            "a..model.baseURL is not a field",
            id="another address",
        ),
        pytest.param({}, [{"name": "a"}], "description is missing", id="a missing field"),
        pytest.param({}, [{**CLERK, "tools": 3}], "tools", id="a wrong type"),
    ],
)
def test_expansion_refuses_what_would_be_lost(changes, entries, sentence):
    with pytest.raises(click.ClickException, match=sentence):
        expansion(agent("lead", {**SPEC, **changes}), SPEC["subAgents"] if entries is None else entries)


def child_spec(name, **changes):
    found = next(each for each in expansion(LEAD, SPEC["subAgents"]).children if each["metadata"]["name"] == name)
    return {key: value for key, value in {**found["spec"], **changes}.items() if value is not None}


def test_handoff_replaces_an_earlier_one_and_nothing_else():
    own = "You write.\n\n## Handoff\n\nNever by post."
    bare = agent("lead", {**SPEC, "subAgents": [READER]})
    first = sub_agent_of(agent("clerk", child_spec("clerk", instructions=own)), bare, handoff="One is open.")
    assert first["instructions"].startswith(f"{own}\n\n<!-- fleetwright team collapse: begin")
    kept = agent("clerk", child_spec("clerk", instructions=first["instructions"]))
    again = sub_agent_of(kept, bare, handoff="Two are open.")
    assert again["instructions"] == first["instructions"].replace("One is", "Two are")
    assert sub_agent_of(kept, bare) == first
    assert merged_sub_agents(bare, [again]) == [READER, again]
    plain = sub_agent_of(agent("clerk", child_spec("clerk", instructions=own)), bare)
    interrupted = agent("lead", {**SPEC, "subAgents": [READER, first]})
    assert merged_sub_agents(interrupted, [plain]) == [READER, first]
    reader = {**READER, "timeout": "120s", "tools": READER["tools"][::-1]}
    assert merged_sub_agents(interrupted, [reader]) == [READER, first]
    with pytest.raises(click.ClickException, match="exists and differs"):
        merged_sub_agents(interrupted, [{**plain, "description": "?"}])
    with pytest.raises(click.ClickException, match="exists and differs"):
        merged_sub_agents(interrupted, [{**reader, "tools": ["orders__look_up"]}])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"mcpServers": [{"name": "other"}]}, "add it there first", id="a server of its own"),
        pytest.param({"mcpServers": [{"name": "mail"}]}, "name the tools there first", id="all tools of a server"),
        pytest.param(
            {"mcpServers": [{"name": "mail", "tools": {"allow": ["a"], "requireApproval": ["a"]}}]},
            "spec.mcpServers is .* and would be", id="an approval that the lead does not need",
        ),
        pytest.param(
            {"mcpServers": [{"name": "orders", "tools": {"allow": ["drop"]}}]},
            "spec.mcpServers is .* and would be unset", id="a tool that the lead may not use",
        ),
        pytest.param({"model": {**MODEL, "apiKeySecretRef": {"name": "b"}}}, "model.apiKeySecretRef.name", id="key"),
        pytest.param({"model": {**MODEL, "baseURL": "http://b"}}, "spec.model.baseURL is", id="another address"),
        pytest.param({"approvals": {"tools": ["mail__send"]}}, "spec.approvals.expiry is unset", id="approvals"),
        pytest.param({"enforcement": None}, "spec.enforcement is unset and would be", id="fewer rules"),
        pytest.param({"skills": [{"name": "b"}]}, "spec.skills is", id="skills"),
        pytest.param({"network": {"policy": "None"}}, "spec.network is", id="network"),
        pytest.param({"podTemplate": None}, "spec.podTemplate is unset", id="pod template"),
        pytest.param({"limits": {"maxTurnSeconds": 900}}, "spec.limits.maxTurnSeconds is 900", id="longer turns"),
        pytest.param({"memory": {"knowledge": {"enabled": True}}}, "spec.memory.knowledge is", id="memory"),
        pytest.param({"description": None}, "spec.description is unset", id="no description"),
        pytest.param({"instructions": "a" * 16_385}, "shorten the instructions", id="too long"),
        pytest.param({"instructions": None}, "spec.instructionsFrom: write the text", id="instructions from a file"),
    ],
)  # fmt: skip
def test_folding_refuses_an_agent_that_differs(changes, named):
    with pytest.raises(click.ClickException, match=named):
        sub_agent_of(agent("clerk", child_spec("clerk", **changes)), LEAD)


PLACE = {"parent": {"name": "lead"}, "reach": "Direct"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"reach": "Lineage"}, 'reach is "Lineage" and would be "Direct"'),
        ({"reach": "None"}, 'reach is unset and would be "Direct"'),
        ({"cascade": True}, "cascade is true and would be unset"),
        ({"suspendTeam": True}, "suspendTeam is true and would be unset"),
        ({"forwardedTo": {"name": "b"}}, 'forwardedTo is {"name": "b"} and would be unset'),
    ],
    ids=["reach", "no reach", "cascade", "suspendTeam", "forwardedTo"],
)
def test_collapse_refuses_changed_fleet_fields(change, sentence):
    cluster = Cluster(BARE, agent("reader", child_spec("reader", fleet=PLACE | change), **READY))
    with pytest.raises(click.ClickException) as refused:
        collapse(cluster, "lead", **OPTIONS, ask=None)
    assert f"Agent reader differs from a sub-agent of lead: spec.fleet.{sentence}." in refused.value.message
    assert cluster.writes == cluster.checked == []


def test_collapse_accepts_default_fleet_fields():
    written = child_spec("clerk", fleet={**PLACE, "cascade": False, "suspendTeam": False})
    assert sub_agent_of(agent("clerk", written), LEAD)["name"] == "clerk"


OPTIONS = {"with_handoff": True, "force": False, "confirmed": True, "dry_run": False, "output": "text"}


async def answer_with_name(child):
    return f"{child} knows."


def test_expand_and_collapse_change_the_cluster_in_order(capsys):
    cluster = Cluster(LEAD)
    expand(cluster, "lead", file=None, dry_run=False, output="text")
    assert cluster.checked == cluster.writes == ["create reader", "create clerk", "change lead"]
    cluster.agents["clerk"]["status"] = {"phase": "Asleep"}
    cluster.writes.clear()
    capsys.readouterr()
    collapse(cluster, "lead", **OPTIONS | {"output": "yaml"}, ask=answer_with_name, sleep=lambda _: None)
    assert cluster.writes == ["wake clerk", "change lead", "delete clerk", "delete reader"]
    printed = capsys.readouterr()
    assert "memory export clerk -n n --owner OWNER" in printed.err
    shown = yaml.safe_load(printed.out.split("---")[-1])["spec"]["subAgents"]
    assert shown == cluster.agents["lead"]["spec"]["subAgents"]
    assert [each["instructions"].splitlines()[-2] for each in shown] == ["clerk knows.", "reader knows."]


def test_expand_continues_after_an_interruption(capsys):
    cluster = Cluster(LEAD, refuses="create clerk")
    with pytest.raises(click.ClickException, match=r"may not create clerk\. Done so far: reader created; lead was not"):
        expand(cluster, "lead", file=None, dry_run=False, output="text")
    cluster.refuses = ""
    cluster.writes.clear()
    expand(cluster, "lead", file=None, dry_run=True, output="text")
    assert cluster.writes == []
    expand(cluster, "lead", file=None, dry_run=False, output="text")
    assert cluster.writes == ["create clerk", "change lead"]
    assert "agent/reader exists" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cluster", "sentence", "writes"),
    [
        pytest.param(Cluster(LEAD, agent("top", {"model": MODEL}, **NO_GATEWAY)), "no gateway", [], id="no gateway"),
        pytest.param(Cluster(LEAD, refuses="change lead (dry run)"), "may not change lead", [], id="no permission"),
        pytest.param(
            Cluster(LEAD, agent("reader", child_spec("reader", limits={}))), "spec.limits is", [], id="another reader"
        ),
        pytest.param(
            Cluster(LEAD, agent("reader", child_spec("reader", instructions="Sing."))), "spec.instructions differs", [],
            id="other instructions",
        ),
        pytest.param(
            Cluster(LEAD, agent("reader", child_spec("reader", fleet={"parent": {"name": "top"}, "reach": "Direct"}))),
            "parent.name is .top. and would be .lead.", [], id="a child of another agent",
        ),
        pytest.param(
            Cluster(agent("lead", SPEC, activity={"runningTasks": 1})), "may use its sub-agents", [], id="busy"
        ),
        pytest.param(
            Cluster(LEAD, status=NO_GATEWAY), "no gateway.* lead was not changed", ["create reader", "create clerk"],
            id="no gateway for the children",
        ),
        pytest.param(
            Cluster(LEAD, status={}), "not ready within .* lead was not changed", ["create reader", "create clerk"],
            id="children that are not ready",
        ),
    ],
)  # fmt: skip
def test_expand_leaves_the_lead_unchanged(cluster, sentence, writes):
    with pytest.raises(click.ClickException, match=sentence):
        expand(cluster, "lead", file=None, dry_run=False, output="text", sleep=lambda _: None)
    assert cluster.writes == writes


def test_collapse_keeps_a_handoff_after_an_interruption():
    cluster = Cluster(LEAD)
    expand(cluster, "lead", file=None, dry_run=False, output="text")
    cluster.refuses = "delete reader"
    cluster.writes.clear()
    with pytest.raises(click.ClickException, match=r"lead has the sub-agents, clerk deleted\. The same command"):
        collapse(cluster, "lead", **OPTIONS, ask=answer_with_name, sleep=lambda _: None)
    stored = cluster.agents["lead"]["spec"]["subAgents"]
    cluster.refuses = ""
    cluster.writes.clear()
    collapse(cluster, "lead", **OPTIONS, ask=None, sleep=lambda _: None)
    assert cluster.writes == ["delete reader"]
    assert cluster.agents["lead"]["spec"]["subAgents"] == stored


BARE = agent("lead", {key: value for key, value in SPEC.items() if key != "subAgents"})
CHILD = agent("reader", child_spec("reader"), **READY)


SUSPENDING = {"phase": "Suspended", "conditions": [{"type": "Ready", "status": "False", "reason": "Suspending"}]}


def other(name, **spec):
    return agent(name, {"instructions": "x", "model": MODEL, **spec})


@pytest.mark.parametrize(
    ("agents", "sentence"),
    [
        pytest.param([BARE], "has no children", id="no children"),
        pytest.param(
            [BARE, CHILD, other("b", fleet={"parent": {"name": "reader"}})],
            "children of their own: reader",
            id="grandchildren",
        ),
        pytest.param([BARE, CHILD, other("b", peers=[{"name": "reader"}])], "Agent b names reader", id="a peer"),
        pytest.param([BARE, {**CHILD, "status": {"activity": {"runningTasks": 2}}}], "tasks run on reader", id="busy"),
        pytest.param([BARE, {**CHILD, "status": {"phase": "Running"}}], "does not show whether", id="unknown activity"),
        pytest.param(
            [BARE, {**CHILD, "status": {**SUSPENDING, "activity": {"runningTasks": 5}}}],
            "tasks run on reader",
            id="a suspended child that finishes its tasks",
        ),
        pytest.param([BARE, CHILD], "nothing was changed", id="a child that does not answer"),
    ],
)
def test_collapse_refuses_before_it_changes_anything(agents, sentence):
    cluster = Cluster(*agents)

    async def ask(child):
        raise AgentUnreachable(f"agent {child} has no ready pod")

    with pytest.raises(click.ClickException, match=sentence):
        collapse(cluster, "lead", **OPTIONS, ask=ask)
    assert cluster.writes == []


@pytest.mark.parametrize("refused", ["change lead", "delete reader"])
def test_collapse_checks_permissions_before_handoffs(refused):
    cluster = Cluster(BARE, CHILD, refuses=f"{refused} (dry run)")
    with pytest.raises(click.ClickException, match=f"may not {refused}"):
        collapse(cluster, "lead", **OPTIONS, ask=None)
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"status": {**READY, "activity": {"runningTasks": 1}}}, "tasks run on reader"),
        ({"spec": {**CHILD["spec"], "approvals": {"tools": ["mail__send"]}}}, "changed meanwhile"),
    ],
    ids=["a task", "another spec"],
)
def test_collapse_reads_the_children_again(change, sentence):
    cluster = Cluster(BARE, CHILD)

    async def ask(child):
        cluster.agents[child] = {**CHILD, **change}
        return "Known."

    with pytest.raises(click.ClickException, match=sentence):
        collapse(cluster, "lead", **OPTIONS, ask=ask, sleep=lambda _: None)
    assert cluster.writes == []


INTERFACE = {"url": "http://reader/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
CARD = {"name": "reader", "capabilities": {"streaming": True}, "supportedInterfaces": [INTERFACE]}


@pytest.mark.parametrize(
    ("state", "parts"),
    [("COMPLETED", [{"text": "Two orders are open."}]), ("COMPLETED", []), ("INPUT_REQUIRED", [{"text": "?"}])],
    ids=["a handoff", "no text", "a question"],
)
async def test_handoff_is_the_answer_of_a_completed_task(state, parts):
    task = {"id": "t", "status": {"state": f"TASK_STATE_{state}"}, "artifacts": [{"parts": parts}]}
    received = []

    def answer(request):
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        body = json.loads(request.content)
        received.append(body["params"])
        result = {"task": {"id": "t"}} if body["method"] == "SendStreamingMessage" else task
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "result": result})

    endpoint = FixedEndpoint(AgentTarget("http://reader", "token"), "reader")
    client = AgentClient(endpoint, transport=httpx.MockTransport(answer))
    if state == "COMPLETED" and parts:
        assert await request_handoff(client) == "Two orders are open."
        assert received[0]["message"]["parts"] == [{"text": REQUEST}]
    else:
        with pytest.raises(RequestError, match="wrote no handoff"):
            await request_handoff(client)
    await client.close()
