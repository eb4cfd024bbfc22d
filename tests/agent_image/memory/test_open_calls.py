"""The record of model calls in progress: its recovery by the next process, and data that it must not store."""

import json
import stat

import pytest

from fleetwright_agent.storage.sqlite.open_calls_file import FILE, FileOpenModelCalls


def about(owner="client:a", task="t"):
    return {"owner": owner, "task": task, "usage": {"model": "m"}}


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / FILE


BEGUN = json.dumps({"call": "1", "about": about()}).encode() + b"\n"
OTHER = json.dumps({"call": "2", "about": about(task="u")}).encode() + b"\n"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        pytest.param(b"", set(), id="nothing"),
        pytest.param(BEGUN, {"1"}, id="a call without an end"),
        pytest.param(BEGUN + b'{"end": "1"}\n', set(), id="a call that ended"),
        pytest.param(BEGUN + OTHER[:20], {"1"}, id="the process ended within a line"),
        pytest.param(BEGUN + b'7\n[]\nnull\n{"about": 1}\n{"call": "3", "about": "x"}\n', {"1"}, id="foreign lines"),
        pytest.param(b"\xff\xfe\n" + BEGUN, {"1"}, id="bytes that are no text"),
        pytest.param(b'{"call": "4", "about": {"owner": "o"}}\n', set(), id="a call without its task"),
    ],
)
def test_open_calls_are_found_by_the_next_process(path, written, left):
    path.write_bytes(written)
    assert FileOpenModelCalls(path).left().keys() == left


@pytest.mark.parametrize("written", [BEGUN[:20], BEGUN + OTHER[:20]], ids=["alone", "behind another"])
def test_open_calls_survive_a_torn_line(path, written):
    path.write_bytes(written)
    FileOpenModelCalls(path).begin("5", about())
    assert "5" in FileOpenModelCalls(path).left()


def test_open_calls_file_is_private_and_empty_without_calls(path):
    calls = FileOpenModelCalls(path)
    calls.begin("1", about())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    calls.end("1")
    assert path.read_bytes() == b""


def test_open_calls_file_stays_small_during_a_long_call(path):
    calls = FileOpenModelCalls(path)
    calls.begin("long", about())
    for number in range(3000):
        calls.begin(str(number), about())
        calls.end(str(number))
    assert path.stat().st_size <= 65 * 1024
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert FileOpenModelCalls(path).left().keys() == {"long"}


def test_open_calls_file_is_not_rewritten_at_each_end(path):
    calls = FileOpenModelCalls(path)
    for number in range(2000):
        calls.begin(str(number), about())
    inodes = set()
    for number in range(1000):
        calls.end(str(number))
        inodes.add(path.stat().st_ino)
    assert len(inodes) <= 3
    assert len(FileOpenModelCalls(path).left()) == 1000


def test_open_calls_erase_removes_an_owner_from_every_line(path):
    calls = FileOpenModelCalls(path)
    calls.begin("left", about("client:gone", "t1"))
    calls.aclose()
    calls = FileOpenModelCalls(path)
    calls.begin("ended", about("client:gone", "t2"))
    calls.begin("runs", about("client:stays", "t3"))
    calls.end("ended")
    calls.erase("client:gone", named="(erased)")
    assert b"client:gone" not in path.read_bytes()
    assert {line["call"]: line["about"]["owner"] for line in lines(path)} == {
        "left": "(erased)",
        "runs": "client:stays",
    }
    calls.end("left")
    calls.end("runs")
    assert path.read_bytes() == b""
