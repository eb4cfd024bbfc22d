"""`fleetwright run` against a real agent: outcomes, exit codes, approvals, interrupts and lost connections."""

import json
import signal
import subprocess
import threading

import pytest
from tests.support.cli.cut_proxy import cut_proxy
from tests.support.cli.dev_run import assert_running, run_fleetwright, start_fleetwright
from tests.support.cli.fleet import Fleet, environment
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

REFUND = "Refund order A-1002."
LOOK_UP = "Look up order A-1002."


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_run_writes_only_the_answer_to_stdout(fleet: Fleet) -> None:
    """This command is a process that starts as the user's does. The others are forks."""
    command = fleet.words("run", "--state", str(fleet.state), "desk", LOOK_UP)
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ceiling(),
        env=environment(fleet.home),
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == (
        "Here is what I found. Order A-1002: a desk lamp, 39.50 USD, delivered on 12 November, reported broken.\n"
    )
    assert "orders__look_up_order" in ended.stderr


def test_run_streams_one_json_object_a_line(fleet: Fleet) -> None:
    ended = fleet.run("--output-format", "stream-json", LOOK_UP)
    found = lines(ended.stdout)
    assert [each["type"] for each in found if each["type"] != "text"] == ["init", "tool", "tool", "cost", "result"]
    assert "".join(each["text"] for each in found if each["type"] == "text") == found[-1]["answer"]
    assert found[-1] | {"exitCode": 0, "state": "completed"} == found[-1]


@pytest.mark.parametrize(
    ("words", "stdin", "wanted"),
    [
        pytest.param([], LOOK_UP, "desk lamp", id="standard input is the prompt"),
        pytest.param(["-"], LOOK_UP, "desk lamp", id="a hyphen"),
        pytest.param(["Repeat the piped data"], "blue-whale", "blue-whale", id="standard input is data"),
    ],
)
def test_run_reads_standard_input(fleet: Fleet, words, stdin, wanted) -> None:
    ended = fleet.run(*words, stdin=stdin)
    assert ended.returncode == 0, ended.stderr
    assert wanted in ended.stdout


@pytest.mark.parametrize(
    ("words", "code", "state"),
    [
        pytest.param([], 3, "input-required", id="undecided"),
        pytest.param(["--on-ask", "decline"], 0, "completed", id="declined"),
        pytest.param(["--approve", "edits"], 3, "input-required", id="edits do not cover other tools"),
        pytest.param(["--max-cost", "0.000001"], 1, "max-cost", id="above the cost limit"),
    ],
)
def test_run_ends_by_policy_when_the_agent_asks(fleet: Fleet, words, code, state) -> None:
    ended = fleet.run("--output-format", "json", *words, REFUND)
    outcome = json.loads(ended.stdout)
    assert (ended.returncode, outcome["state"]) == (code, state), ended.stderr
    if code == 3:
        assert outcome["ask"]["tool"] == "orders__refund_order"
        assert outcome["ask"]["arguments"] == {"order": "A-1002"}
    if words == ["--on-ask", "decline"]:
        assert "not approved" in outcome["answer"].lower() or "declined" in outcome["answer"].lower()


def test_run_answers_a_waiting_task_by_its_id(fleet: Fleet) -> None:
    waiting = json.loads(fleet.run("--output-format", "json", REFUND).stdout)
    answered = fleet.run("--output-format", "json", "--task", waiting["taskId"], "yes")
    outcome = json.loads(answered.stdout)
    assert answered.returncode == 0, answered.stderr
    assert outcome["taskId"] == waiting["taskId"]
    assert "refund" in outcome["answer"].lower()


@pytest.mark.parametrize(
    ("order", "code"), [pytest.param("A-*", 0, id="fits"), pytest.param("B-*", 3, id="another order")]
)
def test_run_approves_by_the_rules_of_a_file(fleet: Fleet, tmp_path, order, code) -> None:
    policy = tmp_path / "policy.yaml"
    rule = {"tool": "orders__refund_order", "arguments": {"order": order}, "decision": "approve"}
    policy.write_text(json.dumps({"version": 1, "rules": [rule]}))
    assert fleet.run("--approve", str(policy), REFUND).returncode == code


def test_run_continues_the_newest_conversation(fleet: Fleet) -> None:
    first = json.loads(fleet.run("--output-format", "json", "My parrot is called Ida.").stdout)
    again = json.loads(fleet.run("--output-format", "json", "--continue", "What is my parrot called?").stdout)
    assert again["contextId"] == first["contextId"]
    assert "called Ida" in again["answer"]
    resumed = fleet.run("--resume", first["contextId"], "What is my parrot called?")
    assert "called Ida" in resumed.stdout
    unknown = fleet.run("--resume", "nosuch", "Hello")
    assert unknown.returncode == 2
    assert "no conversation 'nosuch'" in unknown.stderr


def test_run_removes_control_characters_from_text(fleet: Fleet) -> None:
    fleet.model.scripts["[escape]"] = ["before \x1b[2J\x9b2J", "\x1b]0;title\x07 after"]
    ended = fleet.run("say [escape]")
    assert ended.stdout == "before [2J2J]0;title after\n"


def test_run_cancels_the_task_after_its_timeout(fleet: Fleet) -> None:
    ended = fleet.run("--output-format", "json", "--timeout", "8", "Talk. [[long:400]] [[pause:0.1]]")
    outcome = json.loads(ended.stdout)
    assert (ended.returncode, outcome["state"]) == (124, "timeout")
    assert fleet.run("--task", outcome["taskId"], "more").returncode == 1


def test_run_cancels_the_task_at_an_interrupt(fleet: Fleet) -> None:
    words = ("run", "--state", str(fleet.state), "desk", "--output-format", "stream-json")
    talk = "Talk. [[long:400]] [[pause:0.1]]"
    with start_fleetwright(*words, talk, environment=environment(fleet.home)) as (process, output):
        next(line for line in output if json.loads(line)["type"] == "text")
        process.send_signal(signal.SIGINT)
        rest = output.read()
        assert process.wait() == 130
    assert lines(rest)[-1]["state"] == "interrupted"


def test_run_resumes_a_stream_after_a_lost_connection(fleet: Fleet, tmp_path) -> None:
    token = tmp_path / "token"
    token.write_text(fleet.address["token"])
    token_and_format = ["--token-file", str(token), "--output-format", "stream-json"]
    gate, streamed = threading.Event(), threading.Event()
    fleet.model.scripts["[gate]"] = ["One two three. ", streamed.set, lambda: gate.wait(ceiling()), "Four five six."]
    with cut_proxy(fleet.address["url"]) as proxy:
        words = ("run", "--url", proxy.url, *token_and_format, "[gate]")
        with start_fleetwright(*words, environment=environment(fleet.home)) as (process, output):
            read = [next(line for line in output if json.loads(line)["type"] == "text")]
            assert streamed.wait(ceiling())
            proxy.closed = True
            proxy.cut()
            read += [next(line for line in output if json.loads(line)["type"] == "connection")]
            proxy.closed = False
            accepted = proxy.accepted
            wait_until(
                lambda: proxy.accepted > accepted, "the command connects again", alive=lambda: assert_running(process)
            )
            gate.set()
            found = lines("".join([*read, *output]))
            assert process.wait() == 0
    assert "".join(each["text"] for each in found if each["type"] == "text") == "One two three. Four five six."
    assert [each["connected"] for each in found if each["type"] == "connection"] == [False, True]
    assert not any(each["type"] == "reset" for each in found)


@pytest.mark.parametrize(
    ("words", "code", "wanted"),
    [
        pytest.param(["--url", "http://127.0.0.1:9", "Hi"], 4, "no connection to", id="no agent"),
        pytest.param(["--url", "{url}", "Hi"], 4, "does not accept the token", id="no token"),
        pytest.param(["--state", "{tmp}", "desk", "Hi"], 4, "no fleet runs in", id="no fleet"),
        pytest.param(["--state", "{state}", "nobody", "Hi"], 2, "has no agent 'nobody'", id="another agent"),
        pytest.param(
            ["--state", "{state}", "--client", "eve", "desk", "Hi"], 2, "no client 'eve'", id="another client"
        ),
        pytest.param(["--url", "ftp://x", "Hi"], 2, "is not an HTTP URL", id="another scheme"),
        pytest.param(["--state", "{state}", "desk"], 2, "no prompt", id="no prompt"),
        pytest.param(["--state", "{state}", "desk", "--approve", "all", "Hi"], 2, "neither none, edits", id="approve"),
        pytest.param(["--state", "{state}", "desk", "--continue", "--resume", "c", "Hi"], 2, "exclude", id="two"),
        pytest.param(["--state", "{state}", "desk", "--max-cost", "-1", "Hi"], 2, "--max-cost", id="cost"),
    ],
)
def test_run_reports_mistakes_by_exit_code(fleet: Fleet, tmp_path, words, code, wanted) -> None:
    places = {"url": fleet.address["url"], "tmp": str(tmp_path), "state": str(fleet.state)}
    wanted_words = (word.format(**places) for word in words)
    ended = run_fleetwright("run", *wanted_words, environment=environment(fleet.home))
    assert ended.returncode == code, ended.stderr
    assert wanted in ended.stderr
    assert "Traceback" not in ended.stderr
