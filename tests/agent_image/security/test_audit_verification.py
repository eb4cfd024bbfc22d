"""Manipulated audit trails: the exit code of `audit verify` names the kind of manipulation."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.__main__ import main
from fleetwright_agent.audit.content import call_line
from fleetwright_agent.audit.factory import FOLDER
from fleetwright_agent.audit.files import ERASED, FILE, backup_of
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.layout import Layout


def open_trail(folder: Path, *, most_bytes: int) -> AuditTrail:
    return AuditTrail(
        folder,
        redact=Redactor(),
        now_ns=lambda: 1_700_000_000_000_000_000,
        on_failure=lambda: None,
        most_bytes=most_bytes,
    )


async def record(folder: Path, number: int, *, most_bytes: int = 1 << 20) -> AuditTrail:
    trail = open_trail(folder, most_bytes=most_bytes)
    for place in range(number):
        about = {"session_id": f"c{place % 2}", "owner": "client:a", "tool": "t", **call_line({"n": place}, "fine")}
        await trail.record("tool_call", about)
    return trail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Layout(root=tmp_path).memory / FOLDER


@pytest.fixture
def audit_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """Run the command, and return its exit code and the kinds of its findings."""

    def run(*arguments: str) -> tuple[int, list[str]]:
        try:
            code = main(["audit", "verify", "--root", str(tmp_path), *arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr().out
        return code, [each["kind"] for each in json.loads(printed)["broken"]] if printed else []

    return run


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def without_arguments(line: str) -> str:
    return json.dumps({k: v for k, v in json.loads(line).items() if k not in {"args", "result_summary", "salt"}})


ATTACKS = [
    pytest.param(lambda lines: lines, 0, [], id="nothing"),
    pytest.param(lambda lines: [lines[0], *lines[2:]], 10, ["BrokenChain"], id="a line taken out"),
    pytest.param(
        lambda lines: [lines[0].replace("fine", "good"), *lines[1:]], 11, ["AlteredContent"], id="a result altered"
    ),
    pytest.param(
        lambda lines: [re.sub('"owner": "client:a"', '"owner": "client:b", "owner": "client:a"', lines[0]), *lines[1:]],
        10,
        ["BrokenChain", "RewrittenLine"],
        id="a second owner before the first",
    ),
    pytest.param(
        lambda lines: [*lines[:-1], lines[-1].replace('{"seq"', '{ "seq"')],
        12,
        ["RewrittenLine"],
        id="white space added",
    ),
    pytest.param(
        lambda lines: [*lines[:-1], lines[-1].replace('"tool": "t"', '"tool": "u", "tool": "t"')],
        12,
        ["RewrittenLine"],
        id="a second key in the last line",
    ),
    pytest.param(lambda lines: lines[2:], 13, ["MissingBeginning"], id="the first lines taken out"),
    pytest.param(
        lambda lines: [without_arguments(lines[0]), *lines[1:]], 14, ["UnrecordedErasure"], id="arguments stripped"
    ),
]


@pytest.mark.parametrize(("attack", "code", "kinds"), ATTACKS)
async def test_audit_verify_classifies_changes_to_one_file(folder, audit_verify, attack, code, kinds):
    await (await record(folder, 5)).aclose()
    edit(folder / FILE, attack)
    assert audit_verify() == (code, kinds)


@pytest.mark.parametrize(
    ("attack", "kinds"),
    [
        pytest.param(lambda _: None, [], id="nothing"),
        pytest.param(lambda file: edit(backup_of(file), lambda lines: lines[1:]), ["MissingBeginning"], id="one line"),
        pytest.param(lambda file: backup_of(file).unlink(), ["MissingBeginning"], id="the whole former file"),
        pytest.param(
            lambda file: (backup_of(file).unlink(), edit(file, lambda lines: lines[1:])),
            ["MissingBeginning"],
            id="the former file and lines of the present one",
        ),
    ],
)
async def test_audit_verify_distinguishes_rotation_from_removal(folder, audit_verify, attack, kinds):
    await (await record(folder, 90, most_bytes=8192)).aclose()
    assert json.loads(backup_of(folder / FILE).read_text().splitlines()[0])["event"] == "trail_continues"
    attack(folder / FILE)
    assert audit_verify() == (13 if kinds else 0, kinds)


@pytest.mark.parametrize(
    ("about", "code"),
    [
        pytest.param({"erased_owner": "client:a"}, 0, id="of the whole owner"),
        pytest.param({"erased_owner": "client:a", "erased_session_id": "c0"}, 0, id="of the conversation"),
        pytest.param({"erased_owner": "client:a", "erased_session_id": "c1"}, 14, id="of another conversation"),
        pytest.param({"erased_owner": "client:b"}, 14, id="of another owner"),
    ],
)
async def test_audit_verify_requires_a_record_of_each_erasure(folder, audit_verify, about, code):
    trail = await record(folder, 4)
    await trail.erase("client:a", "c0")
    await trail.record(ERASED, about)
    await trail.aclose()
    assert audit_verify()[0] == code


async def test_audit_verify_rejects_an_erasure_record_before_removal(folder, audit_verify):
    trail = await record(folder, 1)
    await trail.record(ERASED, {"erased_owner": "client:a"})
    await trail.aclose()
    await (await record(folder, 1)).aclose()
    edit(folder / FILE, lambda lines: [*lines[:-1], without_arguments(lines[-1])])
    assert audit_verify() == (14, ["UnrecordedErasure"])


@pytest.mark.parametrize(
    ("cut", "added", "code"),
    [
        pytest.param(0, 3, 0, id="nothing cut"),
        pytest.param(2, 0, 15, id="cut and left"),
        pytest.param(2, 9, 15, id="cut, and more lines written by the next process"),
    ],
)
async def test_audit_verify_expect_detects_a_truncated_end(folder, audit_verify, cut, added, code):
    trail = await record(folder, 6)
    await trail.aclose()
    assert trail.head is not None
    edit(folder / FILE, lambda lines: lines[: len(lines) - cut])
    await (await record(folder, added)).aclose()
    assert audit_verify() == (0, []), "the hash chain alone does not reveal it"
    assert audit_verify("--expect", f"{trail.head.lines}:{trail.head.hash}")[0] == code


async def test_audit_verify_expect_accepts_a_rotated_end(folder, audit_verify):
    trail = await record(folder, 6, most_bytes=8192)
    assert trail.head is not None
    await trail.aclose()
    await (await record(folder, 90, most_bytes=8192)).aclose()
    assert audit_verify("--expect", f"{trail.head.lines}:{trail.head.hash}") == (0, [])


@pytest.mark.parametrize("text", ["5", "x:" + "a" * 64, "0:" + "a" * 64, "5:abc"])
def test_audit_verify_expect_requires_a_number_and_a_hash(audit_verify, text):
    assert audit_verify("--expect", text)[0] == 2


async def test_audit_trail_reports_where_its_process_resumed(folder):
    first = await record(folder, 3)
    await first.aclose()
    second = await record(folder, 0)
    assert second.head is None
    await second.restore()
    assert second.head == second.resumed == first.head
    await second.record("tool_call", {"tool": "t"})
    await second.aclose()
    assert second.resumed == first.head
    assert second.head is not None
    assert second.head.lines == 4
    assert second.process != first.process
