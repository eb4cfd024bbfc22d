"""`fleetwright cost`: the groups on plain rows, and the command against a local fleet and through kubectl."""

import json
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet, environment
from tests.support.cli.kubectl import with_kubectl

from fleetwright_cli.administration.cost import cost_document, cost_table, group_costs
from fleetwright_cli.administration.cost_reading import first_day


def row(agent, caller, day, usd, **counts):
    return {"agent": agent, "caller": caller, "model": "m", "day": day, "calls": 1, "usd": usd, **counts}


ROWS = [
    row("desk", "client:shop", "2026-11-01", "0.25", inputTokens=10),
    row("desk", "client:shop", "2026-11-02", "0.5", inputTokens=5, outputTokens=3),
    row("clerk", "client:b\x1b", "2026-11-02", "0", unpricedCalls=1),
]


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        pytest.param(["agent"], {("clerk",): "0", ("desk",): "0.75"}, id="agent"),
        pytest.param(["day"], {("2026-11-01",): "0.25", ("2026-11-02",): "0.5"}, id="day"),
        pytest.param(
            ["caller", "model"], {("client:b\ufffd", "m"): "0", ("client:shop", "m"): "0.75"}, id="two groups"
        ),
        pytest.param(["purpose"], {("-",): "0.75"}, id="unknown"),
    ],
)
def test_costs_are_grouped(by, wanted):
    found = group_costs(ROWS, by)
    assert {key: f"{each.usd.normalize():f}" for key, each in found.items()} == wanted


def test_cost_table_ends_with_the_total():
    sums = group_costs(ROWS, ["agent", "day"])
    assert cost_table(sums, ["agent", "day"]).splitlines() == [
        "AGENT   DAY          CALLS   INPUT   OUTPUT   UNPRICED   USD",
        "clerk   2026-11-02   1       0       0        1          0.0000",
        "desk    2026-11-01   1       10      0        0          0.2500",
        "desk    2026-11-02   1       5       3        0          0.5000",
        "total                3       15      3        1          0.7500",
    ]
    assert cost_document(sums, ["agent", "day"])["total"]["usd"] == "0.75"


def test_costs_ignore_amounts_that_are_none():
    odd = {"agent": "desk", "calls": "many", "usd": "NaN"}
    assert group_costs([odd, {"usd": "x"}], ["agent"])["desk",].document["usd"] == "0"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("2026-11-01", "2026-11-01", id="day"),
        pytest.param("7d", "2026-11-18", id="days"),
        pytest.param("0d", "2026-11-25", id="today"),
        pytest.param("yesterday", None, id="a word"),
        pytest.param("2026-02-30", None, id="no such day"),
    ],
)
def test_first_day_of_the_report(text, wanted):
    now = datetime(2026, 11, 25, 12, tzinfo=UTC)
    if wanted is None:
        with pytest.raises(ValueError, match=r"time data|day is out of range"):
            first_day(text, now)
    else:
        assert first_day(text, now) == wanted


def _cost(fleet: Fleet, *words: str, environ: dict[str, str] | None = None) -> CompletedProcess[str]:
    return run_fleetwright("cost", *words, environment=environ or environment(fleet.home))


def test_cost_reads_all_agents_of_a_fleet(fleet: Fleet) -> None:
    assert fleet.run("Look up order A-1002.").returncode == 0
    found = json.loads(_cost(fleet, "--state", str(fleet.state), "--by", "agent,caller", "-o", "json").stdout)
    # Other tests call the agents of this fleet as other clients.
    costs = {(row["agent"], row["caller"]): float(row["usd"]) for row in found["rows"]}
    assert costs["desk", "client:default"] > 0
    assert _cost(fleet, "--state", str(fleet.state), "--since", "2999-01-01").stderr.startswith("No model call")


def test_cost_names_the_agents_that_it_cannot_read(fleet: Fleet, kubectl: Path) -> None:
    agents = [{"metadata": {"name": name}} for name in ("desk", "clerk")]
    (kubectl / "agents.fleetwright.dev.json").write_text(
        json.dumps({"metadata": {"name": "desk", "namespace": "team"}, "items": agents})
    )
    ended = _cost(fleet, "-n", "team", environ=with_kubectl(fleet, kubectl))
    assert ended.returncode == 1
    assert [line.split(":")[1] for line in ended.stderr.splitlines()] == [" clerk", " desk"]
    assert "name a client in spec.auth.administrators" in ended.stderr


@pytest.mark.parametrize("words", [["--by", "agent,colour"], ["--by", "day,day"], ["--since", "soon"]], ids=" ".join)
def test_cost_names_the_wrong_option(fleet: Fleet, words) -> None:
    ended = _cost(fleet, *words)
    assert (ended.returncode, f"Invalid value for {words[0]}" in ended.stderr) == (2, True)
