"""`fleetwright logs`: which lines belong to a task, and the command with a program that is kubectl."""

import json
import signal
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from tests.cli.kubectl import with_kubectl
from tests.support.cli.dev_run import run_fleetwright, start_fleetwright
from tests.support.cli.fleet import Fleet

from fleetwright_cli.inspection.log_lines import AgentLogLine, TaskTrail, parse_line
from fleetwright_cli.inspection.log_reading import ClusterLogs

ROOT, PEER, OTHER = "11111111-a", "22222222-b", "33333333-c"
CONTEXT, TRACE = "cccccccc-1", "0123456789abcdef"


def log_line(second, agent="desk", **fields):
    return AgentLogLine(agent, "team", f"{agent}-1", {"time": f"2026-11-25T10:00:{second:02}.000+00:00", **fields})


BEGUN = log_line(2, task=ROOT, peer="team/clerk", peerTask=PEER, message="peer task started")
WARNS = log_line(3, "clerk", task=PEER, message="turn failed")
RESTS = log_line(4, "clerk", task=PEER, context="peer", traceId=TRACE, message="task rests")
ENDS = log_line(5, task=ROOT, context=CONTEXT, traceId=TRACE, message="task rests")
NEXT = log_line(6, task=OTHER, context=CONTEXT, message="task rests")
STRANGE = log_line(1, task="99999999-z", context="zzzzzzzz", message="task rests")
LINES = [STRANGE, NEXT, RESTS, ENDS, WARNS, BEGUN]


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        pytest.param(ROOT, [BEGUN, WARNS, RESTS, ENDS], id="task with that of its peer"),
        pytest.param(ROOT[:8], [BEGUN, WARNS, RESTS, ENDS], id="beginning of an id"),
        pytest.param(PEER, [WARNS, RESTS], id="task of the peer"),
        pytest.param(CONTEXT, [BEGUN, WARNS, RESTS, ENDS, NEXT], id="conversation"),
        pytest.param(TRACE, [BEGUN, WARNS, RESTS, ENDS], id="trace"),
        pytest.param("88888888", [], id="unknown"),
    ],
)
def test_trail_finds_the_lines_of_a_task(wanted, lines):
    assert TaskTrail(wanted).take(LINES) == lines


def test_trail_finds_earlier_lines_once_they_are_known_to_belong():
    trail = TaskTrail(ROOT)
    assert [list(trail.take([each])) for each in (WARNS, STRANGE, BEGUN, RESTS)] == [[], [], [BEGUN, WARNS], [RESTS]]


def test_log_line_is_one_line_without_control_characters():
    line = log_line(1, level="info", logger="a.b", message="task\x1b[2J rests", costs={"usd": 1}, note="x" * 300)
    text = line.text(7)
    assert text.startswith("2026-11-25T10:00:01.000  desk     info     task\ufffd[2J rests  costs=")
    assert (text.isprintable(), len(text) < 350) == (True, True)
    assert parse_line(b"Starting", agent="a", namespace="n", pod="p") is None
    assert log_line(1, time="soon").at == 0.0


@pytest.fixture
def cluster(fleet: Fleet, kubectl: Path) -> Path:
    """Return the folder of kubectl, with the logs of two agents. The container of one has been restarted."""

    def pod(agent, restarts):
        metadata = {"name": f"{agent}-1", "namespace": "team", "labels": {"fleetwright.dev/agent": agent}}
        return {"metadata": metadata, "status": {"containerStatuses": [{"name": "agent", "restartCount": restarts}]}}

    (kubectl / "pods.json").write_text(json.dumps({"items": [pod("desk", 0), pod("clerk", 1)]}))
    for name, lines in {"desk-1.logs": [BEGUN, ENDS], "clerk-1.logs": [RESTS], "clerk-1.previous": [WARNS]}.items():
        (kubectl / name).write_text("noise\n" + "".join(f"{json.dumps(line.fields)}\n" for line in lines))
    return kubectl


def _logs(fleet: Fleet, cluster: Path, *words: str) -> CompletedProcess[str]:
    return run_fleetwright("logs", "-n", "team", *words, environment=with_kubectl(fleet, cluster))


def test_logs_prints_one_task_across_its_agents(fleet: Fleet, cluster: Path) -> None:
    ended = _logs(fleet, cluster, ROOT)
    assert [line.split()[1] for line in ended.stdout.splitlines()] == ["desk", "clerk", "clerk", "desk"], ended.stderr
    found = [json.loads(line) for line in _logs(fleet, cluster, ROOT, "-o", "json").stdout.splitlines()]
    assert [line["message"] for line in found] == [line.fields["message"] for line in (BEGUN, WARNS, RESTS, ENDS)]
    documents = list(yaml.safe_load_all(_logs(fleet, cluster, PEER, "-o", "yaml").stdout))
    assert [document["pod"] for document in documents] == ["clerk-1", "clerk-1"]
    calls = (cluster / "calls").read_text()
    assert "--namespace team logs clerk-1 -c agent --since=24h --previous" in calls


def test_logs_follows_all_agents(fleet: Fleet, cluster: Path) -> None:
    later = log_line(9, "clerk", task=PEER, message="a person answered")
    (cluster / "desk-1.follow").write_text("")
    (cluster / "clerk-1.follow").write_text("".join(f"{json.dumps(line.fields)}\n" for line in (RESTS, later)))
    words = ("logs", "-n", "team", ROOT, "--follow")
    with start_fleetwright(*words, environment=with_kubectl(fleet, cluster)) as (process, output):
        shown = [output.readline() for _ in range(5)]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
    assert "a person answered" in shown[-1]
    assert sum("task rests" in line for line in shown) == 2, "a line that comes twice is printed once"


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        pytest.param(["88888888"], 1, "-A reads all of them", id="unknown"),
        pytest.param(["1234"], 2, "at least 8 characters", id="short"),
        pytest.param(["88888888", "--since", "long"], 2, "not a duration", id="duration"),
    ],
)
def test_logs_names_the_remedy(fleet: Fleet, cluster: Path, words, code, wanted) -> None:
    ended = _logs(fleet, cluster, *words)
    assert (ended.returncode, wanted in ended.stderr) == (code, True), ended.stderr


@pytest.mark.parametrize(
    ("gone", "code", "shown"),
    [
        pytest.param(["clerk-1.logs"], 1, 3, id="one of them"),
        pytest.param(["clerk-1.logs", "clerk-1.previous", "desk-1.logs"], 4, 0, id="all"),
    ],
)
def test_logs_names_each_log_that_cannot_be_read(fleet: Fleet, cluster: Path, gone, code, shown) -> None:
    for name in gone:
        (cluster / name).unlink()
    ended = _logs(fleet, cluster, ROOT)
    assert (ended.returncode, len(ended.stdout.splitlines())) == (code, shown), ended.stderr
    assert ended.stderr.count("the log of pod") == len(gone)


async def test_log_that_takes_too_long_is_a_failure(fleet: Fleet, cluster: Path) -> None:
    program = cluster / "bin" / "slow"
    pods = (cluster / "pods.json").read_text()
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *desk-1*) exec sleep 60;; *logs*) ;; *) echo '{pods}';; esac\n")
    program.chmod(0o755)
    reading = await ClusterLogs((), everywhere=False, kubectl=str(program), seconds=10).read("1h")
    assert [str(each).partition(":")[0] for each in reading.failures] == ["the log of pod desk-1 cannot be read"]


async def test_follow_begins_before_the_first_reading(fleet: Fleet, cluster: Path) -> None:
    (cluster / "desk-1.follow").write_text(f"{json.dumps(BEGUN.fields)}\n")
    logs = ClusterLogs((), everywhere=False, kubectl=str(cluster / "bin" / "kubectl"))
    async with aclosing(logs.follow(datetime(2026, 11, 25, 10, tzinfo=UTC))) as lines:
        assert (await anext(lines)).fields == BEGUN.fields
    assert "logs desk-1 -c agent --follow --since-time=2026-11-25T09:59:58Z" in (cluster / "calls").read_text()
