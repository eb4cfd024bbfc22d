"""The views of `kubectl fleetwright agents` and `why`, on plain objects."""

from datetime import UTC, datetime

import click
import pytest

from fleetwright_cli.cluster.output import dump_yaml
from fleetwright_cli.cluster.tables import render
from fleetwright_cli.inspection.agents import agent_rows
from fleetwright_cli.inspection.reasons import document, sections, text
from fleetwright_cli.inspection.rotation import rotate

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def agent(name="coder", *, spec=None, **status):
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "2026-03-01T10:00:00Z"},
        "spec": {"instructions": "Help.", "model": {"name": "m"}, **(spec or {})},
        "status": status,
    }


def condition(kind, status, reason, message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_agents_are_listed_with_state_and_activity():
    busy = agent(
        phase="Running",
        reason="BudgetExceeded",
        conditions=[condition("Ready", "True", "Ready")],
        activity={"runningTasks": 2, "spentUSD": "1.3", "lastActive": "2026-03-01T11:50:00Z"},
    )
    table = render(agent_rows([busy, agent("a")], now=NOW, with_namespace=False))
    assert table.splitlines() == [
        "NAME    PHASE     READY     REASON           MODEL   SPENT     ACTIVE   AGE",
        "a       -         Unknown   -                m       -         -        2h",
        "coder   Running   True      BudgetExceeded   m       1.3 USD   10m      2h",
    ]


def test_why_names_each_permission_with_its_reason():
    spec = {
        "mcpServers": [{"name": "orders", "tools": {"allow": ["look_up"], "requireApproval": ["refund"]}}],
        "peers": [{"name": "warehouse"}],
        "workspace": {"image": "debian", "tools": ["bash"]},
        "enforcement": {"deny": ["orders__drop"]},
    }
    found = sections(
        agent(
            spec=spec,
            conditions=[
                condition("Accepted", "True", "Valid"),
                condition("WorkspaceReady", "False", "ImagePull", "no such image"),
                condition("Degraded", "True", "ToolsMissing", "orders lacks refund"),
                condition("Ready", "True", "Ready"),
            ],
            ingress=[{"from": "Agent lead", "why": "allowedCallers"}],
            egress=[{"to": "DNS", "why": "to resolve names"}],
            tools=[{"server": "orders", "count": 1, "missing": ["refund"]}],
            workspace={"egress": []},
            permissions={"tools": [{"name": "orders/look_up", "skills": ["refunds"], "granted": False}]},
        )
    )
    known = {key: [(each["what"], each["why"]) for each in entries] for key, entries in document(found).items()}
    assert known["problems"] == [
        ("WorkspaceReady (ImagePull)", "no such image"),
        ("Degraded (ToolsMissing)", "orders lacks refund"),
    ]
    assert known["ingress"] == [("Agent lead", "allowedCallers")]
    assert known["egress"] == [("DNS", "to resolve names")]
    assert known["tools"] == [
        ("McpServer orders: 1 tools", "spec.mcpServers: only look_up"),
        ("orders/refund: missing", "the server does not offer this tool"),
        ("orders/refund: asks a person", "spec.mcpServers.tools.requireApproval"),
        ("bash", "spec.workspace"),
        ("ask_warehouse", "spec.peers"),
        ("orders__drop: never called", "spec.enforcement.deny"),
    ]
    assert known["permissions"][0][0] == "orders/look_up: not granted: the agent or the server denies it"
    assert "Destinations that its workspace may reach:\n  no network" in text(found)


def test_why_replaces_characters_that_a_terminal_interprets():
    found = sections(agent(egress=[{"to": "\x1b[2Jhost", "why": "model"}]))
    assert "\x1b" not in text(found)


def test_output_that_is_too_deep_for_yaml_names_the_remedy():
    deep = []
    for _ in range(1_000):
        deep = [deep]
    with pytest.raises(click.ClickException, match="use -o json"):
        dump_yaml(deep)


class Secrets:
    """A cluster whose operator replaces the token after some reads."""

    namespace = "shop"

    def __init__(self, *, reads: int) -> None:
        self.annotations = {}
        self._left = reads

    def secret(self, name):
        assert name == "coder-client-shop"
        self._left -= bool(self.annotations)
        return {"token": "old" if self._left > 0 or not self.annotations else "new"}

    def annotate_secret(self, name, annotations):
        self.annotations |= annotations


def test_rotation_waits_until_the_new_token_is_in_use(capsys):
    cluster, pauses = Secrets(reads=3), []
    rotate(cluster, "coder", client="shop", wait=5, sleep=pauses.append, now=lambda: NOW)
    assert cluster.annotations == {"fleetwright.dev/rotate": "2026-03-01T12:00:00.000000+00:00"}
    assert pauses == [0.5, 0.5]
    assert "has a new token" in capsys.readouterr().out


def test_rotation_that_takes_too_long_says_so():
    with pytest.raises(Exception, match="has no new token after 1 s; the request stays"):
        rotate(Secrets(reads=99), "coder", client="shop", wait=1, sleep=lambda _: None, now=lambda: NOW)
