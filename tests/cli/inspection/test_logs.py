"""`fleetwright logs`: which lines belong to a task, and the command with a program that is kubectl."""

import json
import re
import signal
import tracemalloc
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from tests.support.cli.dev_run import run_fleetwright, start_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl

from fleetwright_api import names
from fleetwright_cli.inspection.log_lines import AgentLogLine, LoggingAgent, TaskTrail, parse_line
from fleetwright_cli.inspection.log_reading import ClusterLogs

ROOT, PEER, OTHER = "11111111-a", "22222222-b", "33333333-c"
CONTEXT, TRACE = "cccccccc-1", "0123456789abcdef"


def log_line(second, agent="desk", **fields):
    return AgentLogLine(agent, "team", f"{agent}-1", {"time": f"2026-11-25T10:00:{second:02}.000+00:00", **fields})


FIRST = log_line(1, task=ROOT, context=CONTEXT, message="task accepted")
CALLED = log_line(4, task=ROOT, tool="orders__look_up", outcome="ok", message="tool call ended")
PEER_FIRST = log_line(2, "clerk", task=PEER, message="task accepted")
BEGUN = log_line(2, task=ROOT, peer="team/clerk", peerTask=PEER, message="peer task started")
WARNS = log_line(3, "clerk", task=PEER, message="turn failed")
RESTS = log_line(4, "clerk", task=PEER, context="peer", traceId=TRACE, state="completed", message="task rests")
ENDS = log_line(5, task=ROOT, context=CONTEXT, traceId=TRACE, state="completed", message="task rests")
NEXT = log_line(6, task=OTHER, context=CONTEXT, message="task rests")
STRANGE = log_line(1, task="99999999-z", context="zzzzzzzz", message="task rests")
WAITS = log_line(5, task=ROOT, state="input-required", message="task rests")
SECOND_END = log_line(8, task=OTHER, context=CONTEXT, state="failed", message="task rests")
OTHER_FIRST = log_line(6, task=OTHER, message="task accepted")
PEER_NEXT = log_line(7, "clerk", task=OTHER, message="task continues")
CONTINUES = log_line(2, task=ROOT, message="task continues")
SAME_NAME = AgentLogLine("desk", "shop", "desk-1", FIRST.fields | {"task": OTHER})
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
DESK, CLERK = LoggingAgent("team", "desk"), LoggingAgent("team", "clerk")
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
    assert find_lines(TaskTrail(wanted), LINES) == lines


def find_lines(trail, lines):
    """Return the lines of the search in time order. Read them again while further ones turn out to belong to it."""
    found = []
    while len(again := [line for line in lines if trail.learn_line(line)]) > len(found):
        found = again
    return sorted(found, key=lambda line: line.at)


def test_trail_names_tasks_whose_lines_must_be_read_again():
    trail = TaskTrail(ROOT)
    tasks = {WARNS.task, STRANGE.task}
    assert [trail.learn_line(line) for line in (WARNS, STRANGE)] == [False, False]
    assert not trail.select_known(tasks)
    assert trail.learn_line(BEGUN)
    assert trail.select_known(tasks) == {WARNS.task}


def test_text_that_is_too_long_for_an_id_names_no_task():
    assert [log_line(1, task="x" * length).task for length in (256, 257)] == ["x" * 256, ""]


def test_log_line_is_one_line_without_control_characters():
    line = log_line(1, level="info", logger="a.b", message="task\x1b[2J rests", costs={"usd": 1}, note="x" * 300)
    text = line.text(7)
    assert text.startswith("2026-11-25T10:00:01.000  desk     info     task\ufffd[2J rests  costs=")
    assert (text.isprintable(), len(text) < 350) == (True, True)
    assert log_line(1, time="soon").at == 0.0


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"Starting", id="text"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b"[" * 100_000, id="nested too deeply"),
        pytest.param(b'{"task": "\xff"}', id="not UTF-8"),
    ],
)
def test_parse_line_ignores_text_that_is_no_json_object(text):
    assert parse_line(text, agent="a", namespace="n", pod="p") is None


@pytest.fixture
def cluster(fleet: Fleet, kubectl: Path) -> Path:
    """Return the folder of kubectl, with the logs of two agents. The container of one has been restarted."""

    def pod(agent, restarts):
        labels = {**names.labels(names.AGENT, agent), names.COMPONENT: "agent"}
        metadata = {"name": f"{agent}-1", "namespace": "team", "labels": labels}
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
    assert re.search(r"--namespace team logs clerk-1 -c agent --since-time=\S+Z --previous", calls)


def test_logs_follows_all_agents(fleet: Fleet, cluster: Path) -> None:
    later = log_line(9, "clerk", task=PEER, message="a person answered")
    _write_lines(cluster / "desk-1.logs", FIRST, BEGUN)
    _write_lines(cluster / "desk-1.follow")
    _write_lines(cluster / "clerk-1.follow", RESTS, PEER_NEXT, later)
    words = ("logs", "-n", "team", ROOT, "--follow")
    with start_fleetwright(*words, environment=with_kubectl(fleet, cluster)) as (process, output):
        shown = [output.readline() for _ in range(5)]
        process.send_signal(signal.SIGINT)
        assert process.wait() == 1, "the first lines of the peer's task are missing"
    assert "a person answered" in shown[-1]
    assert sum("task rests" in line for line in shown) == 1, "a line that comes twice is printed once"


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
    assert ended.stderr.count("log of pod") == len(gone)


async def test_log_that_takes_too_long_is_a_failure(fleet: Fleet, cluster: Path) -> None:
    program = cluster / "bin" / "slow"
    pods = (cluster / "pods.json").read_text()
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *desk-1*) exec sleep 60;; *logs*) ;; *) echo '{pods}';; esac\n")
    program.chmod(0o755)
    reading = await ClusterLogs((), everywhere=False, kubectl=str(program), seconds=10).read(LONG_AGO, TaskTrail(ROOT))
    assert [str(each).partition(":")[0] for each in reading.failures] == ["the log of pod desk-1 cannot be read"]


async def test_follow_begins_before_the_first_reading(fleet: Fleet, cluster: Path) -> None:
    (cluster / "desk-1.follow").write_text(f"{json.dumps(BEGUN.fields)}\n")
    logs = ClusterLogs((), everywhere=False, kubectl=str(cluster / "bin" / "kubectl"))
    async with aclosing(logs.follow_lines(datetime(2026, 11, 25, 10, tzinfo=UTC))) as lines:
        assert (await anext(lines)).fields == BEGUN.fields
    assert "logs desk-1 -c agent --follow --since-time=2026-11-25T09:59:58Z" in (cluster / "calls").read_text()


@pytest.mark.parametrize(
    ("wanted", "lines", "ended"),
    [
        pytest.param(ROOT, [FIRST, ENDS], True, id="the end"),
        pytest.param(ROOT[:8], [FIRST, ENDS], True, id="the end, by the beginning of the id"),
        pytest.param(ROOT, [FIRST, WAITS], False, id="it waits for a person"),
        pytest.param(ROOT, [FIRST, BEGUN, PEER_FIRST, RESTS], False, id="the end of a peer's task"),
        pytest.param(ROOT, [], False, id="no line"),
        pytest.param(CONTEXT, [FIRST, ENDS, SECOND_END], False, id="a conversation continues"),
        pytest.param(TRACE, [FIRST, ENDS], False, id="a trace continues"),
    ],
)
def test_trail_knows_the_end_of_a_task(wanted, lines, ended):
    trail = TaskTrail(wanted)
    find_lines(trail, lines)
    assert trail.has_ended is ended


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        pytest.param([FIRST, BEGUN, PEER_FIRST, RESTS, ENDS], {}, id="complete"),
        pytest.param([OTHER_FIRST, BEGUN, PEER_FIRST, RESTS, ENDS], {ROOT: DESK}, id="the beginning"),
        pytest.param([CONTINUES, ENDS], {ROOT: DESK}, id="the beginning of a task that continues"),
        pytest.param([FIRST, BEGUN, PEER_NEXT, RESTS, ENDS], {PEER: CLERK}, id="the beginning of the peer's task"),
        pytest.param([BEGUN, PEER_FIRST, RESTS, ENDS], {}, id="an image that logs no start"),
        pytest.param([SAME_NAME, ENDS], {}, id="an agent of this name in another namespace that logs the start"),
        pytest.param([STRANGE], {}, id="another task"),
    ],
)
def test_trail_names_the_tasks_whose_first_lines_are_missing(lines, missing):
    trail = TaskTrail(ROOT)
    find_lines(trail, lines)
    assert trail.incomplete_tasks == missing


@pytest.mark.parametrize(
    ("lines", "unseen"),
    [
        pytest.param([FIRST, BEGUN, ENDS], {PEER: CLERK}, id="none"),
        pytest.param([FIRST, BEGUN, RESTS, ENDS], {}, id="the last one"),
        pytest.param([FIRST, ENDS], {}, id="no peer"),
    ],
)
def test_trail_names_the_tasks_of_peers_without_a_line(lines, unseen):
    trail = TaskTrail(ROOT)
    find_lines(trail, lines)
    assert trail.unseen_peer_tasks == unseen


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"task": ROOT, "state": {}, "message": [], "peerTask": {}, "peer": 7}, id="of a wanted task"),
        pytest.param({"task": {"id": ROOT}, "context": [ROOT], "traceId": {}}, id="instead of an id"),
    ],
)
def test_trail_accepts_fields_of_any_type(fields):
    trail = TaskTrail(ROOT)
    find_lines(trail, [FIRST, log_line(2, **fields), ENDS])
    assert (trail.has_ended, trail.incomplete_tasks, trail.unseen_peer_tasks) == (True, {}, {})


def _write_lines(path: Path, *lines: AgentLogLine) -> None:
    path.write_text("".join(f"{json.dumps(line.fields)}\n" for line in lines))


def test_logs_name_what_is_missing_after_a_pod_was_replaced(fleet: Fleet, cluster: Path) -> None:
    pods = json.loads((cluster / "pods.json").read_text())
    pods["items"][0]["status"]["startTime"] = "2026-11-25T10:00:01Z"
    pods["items"][1]["status"]["containerStatuses"][0]["restartCount"] = 3
    (cluster / "pods.json").write_text(json.dumps(pods))
    _write_lines(cluster / "desk-1.logs", BEGUN, ENDS, OTHER_FIRST)
    _write_lines(cluster / "clerk-1.logs", PEER_NEXT, RESTS)
    ended = _logs(fleet, cluster, ROOT)
    assert ended.returncode == 1
    desk, clerk = ended.stderr.splitlines()
    wanted = f"Incomplete: the first lines of task {ROOT} of agent team/desk are missing (pod desk-1 runs since "
    assert desk.startswith(f"{wanted}2026-11-25T10:00:01Z)")
    assert "2 earlier runs of its container have no log" in clerk
    assert "look into its log collector" in clerk
    assert "an older or own image" in clerk


def test_logs_of_an_image_that_logs_no_start_are_complete(fleet: Fleet, cluster: Path) -> None:
    ended = _logs(fleet, cluster, ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_logs_name_a_task_of_a_peer_whose_log_has_no_line_of_it(fleet: Fleet, cluster: Path) -> None:
    _write_lines(cluster / "clerk-1.logs")
    _write_lines(cluster / "clerk-1.previous")
    ended = _logs(fleet, cluster, ROOT)
    assert ended.returncode == 1
    assert f"all lines of task {PEER}, which was begun at agent team/clerk, are missing (pod clerk-1" in ended.stderr


def test_logs_of_a_whole_task_have_its_start_and_its_tools(fleet: Fleet, cluster: Path) -> None:
    _write_lines(cluster / "desk-1.logs", FIRST, BEGUN, CALLED, ENDS)
    _write_lines(cluster / "clerk-1.previous", PEER_FIRST, WARNS)
    ended = _logs(fleet, cluster, ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "task accepted" in ended.stdout.splitlines()[0]
    assert "tool call ended  task=11111111-a  tool=orders__look_up  outcome=ok" in ended.stdout


@pytest.mark.parametrize("written", [pytest.param(False, id="later"), pytest.param(True, id="before the command")])
def test_follow_ends_with_the_task(fleet: Fleet, cluster: Path, written: bool) -> None:
    _write_lines(cluster / "clerk-1.previous", PEER_FIRST, WARNS)
    _write_lines(cluster / "clerk-1.follow")
    _write_lines(cluster / "desk-1.logs", FIRST, BEGUN, *([ENDS] if written else []))
    _write_lines(cluster / "desk-1.follow", BEGUN, ENDS)
    ended = _logs(fleet, cluster, ROOT, "--follow")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("task rests") == 2


def _wrap_kubectl(cluster: Path, cases: str) -> None:
    """Let a shell script run before the program. Args: `cases` are those of a `case` over its arguments."""
    program, wrapped = cluster / "bin" / "kubectl", cluster / "bin" / "wrapped-kubectl"
    program.rename(wrapped)
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\nexec {wrapped} "$@"\n')
    program.chmod(0o755)


@pytest.mark.parametrize("seconds", [0, pytest.param(4, id="a reading that takes longer than a look for pods")])
def test_follow_shows_earlier_lines_that_a_later_line_links(fleet: Fleet, cluster: Path, seconds) -> None:
    """The last line of the task of the peer links a third task, whose only line was left out too."""
    third = log_line(2, "clerk", task=OTHER, message="task accepted")
    links = replace(WARNS, fields={**WARNS.fields, "peerTask": OTHER, "peer": "default/clerk"})
    _write_lines(cluster / "clerk-1.previous", PEER_FIRST, third, links)
    _write_lines(cluster / "clerk-1.logs", RESTS)
    _write_lines(cluster / "clerk-1.follow")
    _write_lines(cluster / "desk-1.logs", FIRST)
    _write_lines(cluster / "desk-1.follow", FIRST, BEGUN, ENDS)
    _wrap_kubectl(cluster, f"*--follow*) ;;\n*logs*) sleep {seconds};;")
    ended = _logs(fleet, cluster, ROOT, "--follow", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    wanted = [FIRST, BEGUN, PEER_FIRST, third, links, RESTS, ENDS]
    shown = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sorted(each["message"] for each in shown) == sorted(each.message for each in wanted)


def test_follow_shows_lines_of_other_agents_that_came_before_the_link(fleet: Fleet, cluster: Path) -> None:
    """The reading that began the command has none of the lines of the peer."""
    _write_lines(cluster / "clerk-1.previous")
    _write_lines(cluster / "clerk-1.logs")
    _write_lines(cluster / "clerk-1.follow", PEER_FIRST, WARNS)
    _write_lines(cluster / "desk-1.logs", FIRST)
    _write_lines(cluster / "desk-1.lines", BEGUN, ENDS)
    # The log of the peer has its lines when they are followed, and the line that links them comes later.
    follow_peer = f"cp {cluster}/clerk-1.follow {cluster}/clerk-1.logs; touch {cluster}/followed"
    follow_desk = f"until test -e {cluster}/followed; do sleep 0.05; done; sleep 1; cat {cluster}/desk-1.lines; exit"
    _wrap_kubectl(cluster, f"*clerk-1*--follow*) {follow_peer};;\n*desk-1*--follow*) {follow_desk};;")
    ended = _logs(fleet, cluster, ROOT, "--follow", "-o", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    shown = [json.loads(line)["message"] for line in ended.stdout.splitlines()]
    assert sorted(shown) == sorted(each.message for each in (FIRST, BEGUN, PEER_FIRST, WARNS, ENDS))
    starts = re.findall(r"logs clerk-1 -c agent --since-time=(\S+)Z\n", (cluster / "calls").read_text())
    first, again = map(datetime.fromisoformat, starts)
    assert again - first > timedelta(hours=23), "the second reading begins when the task was seen first"


NOISE = 25_000


def _write_long_log(path: Path, first: AgentLogLine, last: AgentLogLine) -> None:
    """Write a log of 25 MB in which everything between two lines belongs to other tasks, and one line is too long."""
    padding = "x" * 900
    with path.open("w") as file:
        file.write(json.dumps(first.fields) + "\n")
        for number in range(NOISE):
            fields = log_line(1, task=f"{number % 500:08}-noise", note=padding).fields
            file.write(json.dumps(fields) + "\n")
        file.write(json.dumps({"task": ROOT, "note": "y" * 3_000_000}) + "\n")
        file.write(json.dumps(last.fields) + "\n")


async def test_logs_keep_the_lines_of_the_task_only(fleet: Fleet, cluster: Path) -> None:
    _write_long_log(cluster / "clerk-1.previous", PEER_FIRST, WARNS)
    _write_lines(cluster / "desk-1.logs", FIRST, BEGUN, ENDS)
    logs = ClusterLogs((), everywhere=False, kubectl=str(cluster / "bin" / "kubectl"))
    tracemalloc.start()
    try:
        reading = await logs.read(LONG_AGO, TaskTrail(ROOT))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [line.fields for line in reading.lines] == [
        line.fields for line in (FIRST, BEGUN, PEER_FIRST, WARNS, RESTS, ENDS)
    ]
    assert peak < 8 * 1024 * 1024


def test_long_logs_lose_no_line(fleet: Fleet, cluster: Path) -> None:
    _write_long_log(cluster / "desk-1.logs", FIRST, ENDS)
    ended = _logs(fleet, cluster, ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [line.split()[2:4] for line in ended.stdout.splitlines()] == [["task", "accepted"], ["task", "rests"]]


@pytest.mark.parametrize(
    ("tasks", "reads"),
    [
        pytest.param([PEER_FIRST, RESTS], 2, id="the task of a peer, which another log names"),
        pytest.param([STRANGE], 1, id="another task"),
    ],
)
async def test_log_is_read_again_only_if_needed(fleet: Fleet, cluster: Path, tasks, reads) -> None:
    pods = json.loads((cluster / "pods.json").read_text())
    pods["items"][1]["status"]["containerStatuses"][0]["restartCount"] = 0
    (cluster / "pods.json").write_text(json.dumps(pods))
    # The log of the peer is complete before the other one begins.
    _write_lines(cluster / "clerk-1.logs", *tasks)
    _write_lines(cluster / "desk-1.logs", FIRST, BEGUN, ENDS)
    program = cluster / "bin" / "kubectl-in-order"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *desk-1*) until test -e {cluster}/read; do sleep 0.05; done;; esac\n'
        f'{cluster}/bin/kubectl "$@"; code=$?\n'
        f'case "$*" in *clerk-1*) touch {cluster}/read;; esac\nexit $code\n'
    )
    program.chmod(0o755)
    await ClusterLogs((), everywhere=False, kubectl=str(program)).read(LONG_AGO, TaskTrail(ROOT))
    assert (cluster / "calls").read_text().count("logs clerk-1") == reads
