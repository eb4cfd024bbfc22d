"""Commands over HTTP: their output, their end, and commands that attack the executor. Each test is bounded in time."""

import contextlib
import json
import secrets
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.waiting import wait_until
from tests.support.workspace import LocalWorkspace, end_of, output_of

MEGABYTE = 1024 * 1024


def _memory(pid: int, name: str = "VmHWM") -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def _is_running(marker: str) -> bool:
    """Return whether a process has the marker in its command line."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes():
                return True
    return False


@pytest.mark.parametrize(
    ("command", "stdout", "stderr", "end"),
    [
        pytest.param("echo a; echo b >&2; exit 3", "a\n", "b\n", (3, None), id="shell"),
        pytest.param(["printf", "%s|", "a b", "$HOME"], "a b|$HOME|", "", (0, None), id="argv without a shell"),
        pytest.param("kill -SEGV $$", "", "", (None, "SIGSEGV"), id="signal"),
        pytest.param(
            ["no-such-program"], "", "no-such-program: No such file or directory\n", (127, None), id="unknown"
        ),
        pytest.param("cat; read x </dev/tty || echo no terminal", "no terminal\n", None, (0, None), id="terminal"),
        pytest.param("printf 'a\\377\\0b'", "a\ufffd\0b", "", (0, None), id="binary"),
        pytest.param("printf 'gr\\303'; sleep 0.2; printf '\\274n'", "grün", "", (0, None), id="divided character"),
        pytest.param("tty; ps -o tty= -p $$ | tr -d ' '", "not a tty\n?\n", "", (0, None), id="no terminal"),
    ],
)
def test_command_output_and_end(
    workspace: LocalWorkspace, command: Any, stdout: str, stderr: str | None, end: tuple[int | None, str | None]
) -> None:
    lines = workspace.run(command)
    assert output_of(lines) == stdout
    assert stderr is None or output_of(lines, "stderr") == stderr
    assert (end_of(lines)["exit"], end_of(lines)["signal"]) == end
    assert end_of(lines)["timed_out"] is False


def test_command_runs_in_its_folder(workspace: LocalWorkspace) -> None:
    (workspace.root / "inner").mkdir()
    lines = workspace.run("pwd; echo $MODE", cwd="inner", environment={"MODE": "strict"})
    assert output_of(lines) == f"{workspace.root}/inner\nstrict\n"


def test_command_has_no_foreign_variables(own_workspace: LocalWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    own_workspace.executor.terminate()
    own_workspace.executor.wait()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("NPM_TOKEN", "kept")
    monkeypatch.setenv("GOPATH", "/go")
    own_workspace.executor = own_workspace.start_executor("--keep", "NPM_TOKEN")
    variables = dict(line.split("=", 1) for line in output_of(own_workspace.run(["env"])).splitlines())
    assert "OPENAI_API_KEY" not in variables
    assert (variables["NPM_TOKEN"], variables["GOPATH"]) == ("kept", "/go")
    assert variables["HOME"] == str(own_workspace.folder / "home")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"command": "true", "argv": ["true"]}, "bad_request", id="both"),
        pytest.param({}, "bad_request", id="neither"),
        pytest.param({"command": "a\0b"}, "bad_request", id="zero byte"),
        pytest.param({"command": "true", "cwd": ".."}, "outside", id="outside"),
        pytest.param({"command": "true", "cwd": "missing"}, "not_found", id="missing folder"),
        pytest.param({"command": "true", "timeout_seconds": 0}, "bad_request", id="no time"),
        pytest.param({"command": "true", "environment": {"A=B": "c"}}, "bad_request", id="variable name"),
        pytest.param({"command": "true", "id": "a\nb"}, "bad_request", id="id with a newline"),
        pytest.param({"command": "a" * 200_000}, "bad_request", id="long command"),
    ],
)
def test_command_is_refused(workspace: LocalWorkspace, fields: dict[str, Any], code: str) -> None:
    body = {"id": secrets.token_hex(8), "timeout_seconds": 5, **fields}
    assert workspace.call("exec", **body)["error"]["code"] == code


def test_command_id_is_used_once(own_workspace: LocalWorkspace) -> None:
    fields = {"id": "once", "command": "echo ran >>runs", "timeout_seconds": 5}
    assert own_workspace.http.post("/v1/exec", json=fields).status_code == 200
    assert own_workspace.call("exec", **fields)["error"]["code"] == "exists"
    own_workspace.runner.kill()
    own_workspace.runner.wait()
    own_workspace.http.close()
    own_workspace.runner = own_workspace.start_runner()
    assert own_workspace.call("exec", **fields)["error"]["code"] == "exists"
    assert (own_workspace.root / "runs").read_text() == "ran\n"


def test_long_output_keeps_head_and_tail(own_workspace: LocalWorkspace) -> None:
    before = _memory(own_workspace.runner.pid)
    lines = own_workspace.run("echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last", seconds=120)
    end = end_of(lines)
    assert (end["exit"], end["stdout_bytes"]) == (0, 200_000_012)
    text = output_of(lines)
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    assert len(text) == 50_000
    cut = [line["cut"] for line in lines if "cut" in line]
    assert cut == [200_000_012 - 50_000]
    assert before <= 20 * MEGABYTE
    assert _memory(own_workspace.runner.pid) <= before + 16 * MEGABYTE


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("trap '' TERM; echo MARK; while :; do sleep 0.1; done", id="ignores SIGTERM"),
        pytest.param("sleep 100 & setsid sleep 100 & wait", id="leaves its session"),
        pytest.param("(setsid sh -c 'sleep 100 & sleep 100' &) ; sleep 100", id="daemons"),
        pytest.param("kill -STOP $$", id="stops itself"),
        pytest.param(f"{sys.executable} -c 'input()' </dev/zero; sleep 100", id="reads without end"),
    ],
)
def test_time_out_ends_every_process(workspace: LocalWorkspace, command: str) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    lines = workspace.run(["bash", "-c", command, marker], seconds=0.5)
    assert end_of(lines)["timed_out"] is True
    wait_until(lambda: not _is_running(marker), "every process of the command ends")
    assert output_of(workspace.run("echo alive")) == "alive\n"


def test_background_process_ends_with_its_command(workspace: LocalWorkspace) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    lines = workspace.run(f"setsid bash -c 'sleep 100; true' {marker} & echo started")
    assert output_of(lines) == "started\n"
    assert end_of(lines)["exit"] == 0
    wait_until(lambda: not _is_running(marker), "every process of the command ends")


def test_closed_connection_ends_the_command(workspace: LocalWorkspace) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    body = {"id": marker, "argv": ["bash", "-c", "echo up; sleep 100; true", marker], "timeout_seconds": 60}
    with workspace.http.stream("POST", "/v1/exec", json=body) as answer:
        lines = answer.iter_lines()  # the connection ends with this generator
        assert json.loads(next(lines))["text"] == "up\n"
        assert _is_running(marker)
    wait_until(lambda: not _is_running(marker), "every process of the command ends")


def test_killed_runner_ends_the_command(own_workspace: LocalWorkspace) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    body = {"id": marker, "argv": ["bash", "-c", "echo up; sleep 100; true", marker], "timeout_seconds": 60}
    with own_workspace.http.stream("POST", "/v1/exec", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        own_workspace.runner.kill()
        own_workspace.runner.wait()
        with pytest.raises(httpx.HTTPError):
            list(lines)
    wait_until(lambda: not _is_running(marker), "every process of the command ends")


def test_many_processes_are_ended(own_workspace: LocalWorkspace) -> None:
    own_workspace.executor.terminate()
    own_workspace.executor.wait()
    own_workspace.executor = own_workspace.start_executor("--processes", "100")
    # The bomb is bounded, in case nothing ends it: eight levels are 511 processes.
    bomb = "b() { [ $1 -gt 8 ] || { b $(($1+1)) & b $(($1+1)) & }; sleep 100; }; b 0"
    lines = own_workspace.run(bomb, seconds=80)
    assert end_of(lines)["stopped"] == "processes"
    assert output_of(own_workspace.run("echo alive")) == "alive\n"


def test_much_memory_ends_the_command(own_workspace: LocalWorkspace) -> None:
    own_workspace.executor.terminate()
    own_workspace.executor.wait()
    own_workspace.executor = own_workspace.start_executor("--memory", str(200 * MEGABYTE))
    one = own_workspace.run([sys.executable, "-c", "x = bytearray(400 * 1024 * 1024)"])
    assert end_of(one)["exit"] == 1
    assert "MemoryError" in output_of(one, "stderr")
    many = (
        f"for i in 1 2 3; do {sys.executable} -c 'x = b\"x\" * (90 << 20); import time; time.sleep(100)' & done; wait"
    )
    assert end_of(own_workspace.run(many, seconds=80))["stopped"] == "memory"
    shared = "import os, time; x = b'x' * (90 << 20); [os.fork() for _ in range(3)]; time.sleep(1)"
    assert end_of(own_workspace.run([sys.executable, "-c", shared]))["exit"] == 0
    assert output_of(own_workspace.run("echo alive")) == "alive\n"


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("kill -9 $PPID; sleep 100", id="kills the process that runs it"),
        pytest.param("kill -9 $(ps -o ppid= -p $PPID); sleep 100", id="kills the server"),
        pytest.param("kill -STOP $(ps -o ppid= -p $PPID); sleep 100", id="stops the server"),
        pytest.param("rm -f {socket}; sleep 100", id="removes the socket"),
        pytest.param("rm -f {socket}; touch {socket}; sleep 100", id="replaces the socket"),
    ],
)
def test_executor_recovers_from_an_attack(own_workspace: LocalWorkspace, attack: str) -> None:
    marker = f"marker-{secrets.token_hex(8)}"
    command = attack.replace("{socket}", str(own_workspace.folder / "socket"))
    last = own_workspace.run(["bash", "-c", command, marker], seconds=3)[-1]
    assert last == {"lost": True} or last["end"]["timed_out"]
    wait_until(lambda: own_workspace.http.get("/v1/info").json()["executor"], "the executor answers again")
    wait_until(lambda: not _is_running(marker), "every process of the command ends")
    assert output_of(own_workspace.run("echo alive")) == "alive\n"


def test_missing_executor_is_unavailable(own_workspace: LocalWorkspace) -> None:
    own_workspace.executor.terminate()
    own_workspace.executor.wait()
    fields = {"id": "later", "command": "echo ran", "timeout_seconds": 5}
    assert own_workspace.call("exec", **fields)["error"]["code"] == "executor_unavailable"
    own_workspace.executor = own_workspace.start_executor()
    # The command was not started, so its id is still free.
    assert own_workspace.http.post("/v1/exec", json=fields).status_code == 200
