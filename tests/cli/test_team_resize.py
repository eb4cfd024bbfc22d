"""Sub-agents that become agents of a team, and back, on plain objects and with a cluster in memory."""

import json

import click
import httpx
import pytest
import yaml

from fleetwright_cli.team.expansion import expansion
from fleetwright_cli.team.folding import folded_sub_agents, sub_agent_of
from fleetwright_cli.team.handoff import REQUEST, request_handoff
from fleetwright_cli.team.resize_command import collapse, expand
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, FixedEndpoint
from fleetwright_cli.terminal.transport.errors import AgentUnreachable, RequestError

READER = {
    "name": "reader",
    "description": "Reads orders",
    "instructions": "You read.",
    "tools": ["orders__look_up", "orders__refund", "load_skill", "remember_fact"],
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
    "subAgents": [READER, CLERK],
}


def agent(name, spec, *, uid="", **status):
    metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-of-{name}", "resourceVersion": "1"}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1", "kind": "Agent", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


LEAD = agent("lead", SPEC)


class Cluster:
    """Agents in memory, with the methods of the client that the commands use."""

    def __init__(self, *agents):
        self.agents = {each["metadata"]["name"]: each for each in agents}
        self.namespace, self.context = "n", None
        self.writes = []

    def get(self, kind, name):
        return self.agents[name]

    def find(self, kind, name):
        return self.agents.get(name)

    def list(self, kind):
        return list(self.agents.values())

    def create(self, manifest):
        self.writes.append(f"create {manifest['metadata']['name']}")
        self.agents[manifest["metadata"]["name"]] = agent(manifest["metadata"]["name"], manifest["spec"])

    def delete(self, kind, name, *, uid):
        assert self.agents.pop(name)["metadata"]["uid"] == uid
        self.writes.append(f"delete {name}")

    def merge(self, kind, name, patch):
        if "spec" not in patch:
            self.writes.append(f"wake {name}")
            self.agents[name] = {**self.agents[name], "status": {"phase": "Running"}}
            return
        assert patch["metadata"] == {"resourceVersion": "1"}
        self.writes.append(f"change {name}")
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
        "limits": {"maxModelCalls": 7, "maxTurnSeconds": 120},
        "approvals": {"tools": ["orders__look_up"], "expiry": "1h"},
        "enforcement": {"deny": [], "limits": [{"tool": "*", **RATE}]},
        "budgets": [{"period": "Day", "usd": "5"}],
    }
    assert clerk["model"] == {"name": "small", "baseURL": "http://model/v1", "apiKeySecretRef": {"name": "key"}}
    assert "mcpServers" not in clerk
    assert result.lead["spec"]["fleet"] == {"parent": {"name": "top"}, "reach": "Direct"}
    assert "subAgents" not in result.lead["spec"]
    assert [note.split(" ")[0] for note in result.notes] == ["reader", "each"]
    assert "remember_fact" in result.notes[0]


def test_expanded_agents_fold_back_to_the_same_sub_agents():
    known = [{**READER, "tools": ["orders__look_up", "orders__refund"]}, CLERK]
    result = expansion(LEAD, known)
    folded = [sub_agent_of(agent(child["metadata"]["name"], child["spec"]), LEAD) for child in result.children]
    assert folded[0] == {**known[0], "timeout": "120s"}
    assert folded[1] == {**CLERK, "maxModelCalls": 30, "timeout": "300s"}


def test_handoff_replaces_an_earlier_one_in_the_instructions():
    child = agent("clerk", {"instructions": "You write.", "model": MODEL})
    first = sub_agent_of(child, LEAD, handoff="One is open.")
    assert first["instructions"] == "You write.\n\n## Handoff\n\nOne is open.\n"
    again = sub_agent_of(agent("clerk", {**child["spec"], **first}), LEAD, handoff="Two are open.")
    assert again["instructions"] == "You write.\n\n## Handoff\n\nTwo are open.\n"
    assert folded_sub_agents(LEAD, [again]) == [READER, again]


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        pytest.param({"mcpServers": [{"name": "other"}]}, "add it there first", id="a server of its own"),
        pytest.param({"mcpServers": [{"name": "mail"}]}, "name the tools there first", id="all tools of a server"),
        pytest.param({"model": {"name": "x", "baseURL": "http://b"}}, "use the address of lead", id="another address"),
        pytest.param({"instructions": "a" * 16_385}, "shorten the instructions", id="too long"),
        pytest.param({"instructions": None}, "spec.instructionsFrom: write the text", id="instructions from a file"),
    ],
)
def test_folding_refuses_what_a_sub_agent_cannot_do(spec, remedy):
    given = {
        key: value for key, value in {"instructions": "Help.", "model": MODEL, **spec}.items() if value is not None
    }
    with pytest.raises(click.ClickException, match=remedy):
        sub_agent_of(agent("clerk", given), LEAD)


def test_expand_and_collapse_change_the_cluster_in_order(capsys):
    cluster = Cluster(LEAD)
    expand(cluster, "lead", file=None, dry_run=False, output="text")
    assert cluster.writes == ["create reader", "create clerk", "change lead"]
    assert sorted(cluster.agents) == ["clerk", "lead", "reader"]
    cluster.agents["clerk"]["status"] = {"phase": "Asleep"}
    cluster.agents["clerk"]["spec"] |= {"workspace": {"image": "x"}, "peers": []}
    cluster.writes.clear()

    async def ask(child):
        return f"{child} knows."

    options = {"with_handoff": True, "force": False, "confirmed": True, "dry_run": False, "output": "yaml"}
    capsys.readouterr()
    collapse(cluster, "lead", **options, ask=ask, sleep=lambda _: None)
    assert cluster.writes == ["wake clerk", "change lead", "delete clerk", "delete reader"]
    printed = capsys.readouterr()
    assert "memory export clerk -n n --owner OWNER" in printed.err
    assert "- the settings of clerk in spec.budgets, spec.workspace" in printed.err
    shown = yaml.safe_load(printed.out.split("---")[-1])["spec"]["subAgents"]
    assert shown == cluster.agents["lead"]["spec"]["subAgents"]
    assert [each["instructions"].splitlines()[-1] for each in shown] == ["clerk knows.", "reader knows."]


def test_expand_repeats_after_an_interruption(capsys):
    cluster = Cluster(LEAD, agent("reader", {"model": MODEL, "fleet": {"parent": {"name": "lead"}}}))
    expand(cluster, "lead", file=None, dry_run=True, output="text")
    assert cluster.writes == []
    expand(cluster, "lead", file=None, dry_run=False, output="text")
    assert cluster.writes == ["create clerk", "change lead"]


CHILD = agent("reader", {"instructions": "x", "model": MODEL, "fleet": {"parent": {"name": "lead"}}})


@pytest.mark.parametrize(
    ("agents", "sentence"),
    [
        pytest.param([LEAD], "has no children", id="no children"),
        pytest.param(
            [LEAD, CHILD, agent("below", {"model": MODEL, "fleet": {"parent": {"name": "reader"}}})],
            "reader have children of their own", id="grandchildren",
        ),
        pytest.param([LEAD, {**CHILD, "status": {"activity": {"runningTasks": 2}}}], "tasks run on reader", id="busy"),
        pytest.param([LEAD, CHILD], "nothing was changed", id="a child that does not answer"),
    ],
)  # fmt: skip
def test_collapse_refuses_before_it_changes_anything(agents, sentence):
    cluster = Cluster(*agents)

    async def ask(child):
        raise AgentUnreachable(f"agent {child} has no ready pod")

    options = {"with_handoff": True, "force": False, "confirmed": True, "dry_run": False, "output": "text"}
    with pytest.raises(click.ClickException, match=sentence):
        collapse(cluster, "lead", **options, ask=ask)
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
