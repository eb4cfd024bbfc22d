"""The audit trail: verification detects changed and removed records, and the agent reports and counts a full volume."""

import asyncio
import fcntl
import json
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.audit.content import call_line
from fleetwright_agent.audit.files import FILE, backup_of
from fleetwright_agent.audit.trail import AuditFailed, AuditTrail
from fleetwright_agent.audit.verification import verify


def trail(folder: Path, *, failures: list[int] | None = None, most: int = 1 << 20) -> AuditTrail:
    counted: list[int] = [] if failures is None else failures
    return AuditTrail(
        folder,
        redact=Redactor(),
        now_ns=lambda: 1_700_000_000_000_000_000,
        on_failure=lambda: counted.append(1),
        most_bytes=most,
    )


async def written(folder: Path, number: int = 5, **options: Any) -> AuditTrail:
    opened = trail(folder, **options)
    for place in range(number):
        await opened.record("tool_call", {"tool": "t", **call_line({"n": place}, "fine")})
    await opened.aclose()
    return opened


async def test_audit_record_names_the_call_redacted_and_truncated(tmp_path: Path) -> None:
    opened = trail(tmp_path)
    long = "x" * 480 + "api_key=hunter2hunter2hunter2"
    await opened.record("tool_call", {"tool": "t", **call_line({"password": "p", "text": long, "n": 1}, "y" * 5000)})
    await opened.aclose()
    (line,) = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert (line["event"], line["tool"], line["seq"]) == ("tool_call", "t", 1)
    assert line["ts"] == "2023-11-14T22:13:20.000+00:00"
    assert line["args"]["password"] == "[REDACTED]"
    assert line["args"]["n"] == 1
    assert len(line["args"]["text"]) <= 501
    assert "hunter" not in json.dumps(line), "truncation leaves no part of the secret"
    assert len(line["result_summary"]) == 200


ARGUMENTS = [
    pytest.param("x" * 500, "x" * 500, id="what is not longer is kept whole"),
    pytest.param("x" * 501, "x" * 500 + "…", id="what is longer is cut after 500 characters"),
    pytest.param(["x" * 496], ["x" * 496], id="a list of 500 characters in JSON"),
    pytest.param(["x" * 497], '["' + "x" * 497 + '"…', id="a list of 501 is told as the beginning of its JSON"),
]


@pytest.mark.parametrize(("given", "kept"), ARGUMENTS)
async def test_audit_argument_is_kept_to_500_characters(given: Any, kept: Any, tmp_path: Path) -> None:
    opened = trail(tmp_path)
    await opened.record("tool_call", {"tool": "t", **call_line({"text": given}, "fine")})
    await opened.aclose()
    (line,) = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert line["args"]["text"] == kept


@pytest.mark.parametrize("length", [900, 3000, 20_000])
@pytest.mark.parametrize("value", ['{"token": "%s"}', '{\\"token\\": \\"%s\\"}', "Bearer %s1"])
async def test_audit_record_omits_a_secret_beyond_the_scan_length(value: str, length: int, tmp_path: Path) -> None:
    opened = trail(tmp_path)
    told = value % ("S" * length)
    await opened.record("tool_call", {"tool": "t", **call_line({"body": told, "in": {"deep": told}}, told)})
    await opened.aclose()
    assert "SSS" not in (tmp_path / FILE).read_text()


async def test_audit_chain_continues_over_restarts_and_rotation(tmp_path: Path) -> None:
    for _ in range(3):
        last = await written(tmp_path, 40, most=16_384)
    assert backup_of(tmp_path / FILE).exists()
    verdict = verify(tmp_path)
    assert verdict.broken == ()
    assert last.head is not None
    # Each rotation adds a record that links the new file to its predecessor.
    assert (verdict.head, last.head.lines) == (last.head.hash, 120 + 2)


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        pytest.param(lambda lines: [*lines[:2], lines[2].replace("fine", "good"), *lines[3:]], "line 3", id="altered"),
        pytest.param(lambda lines: [*lines[:2], *lines[3:]], "line 3", id="taken out"),
        pytest.param(lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "line 2", id="put in another order"),
        pytest.param(lambda lines: [lines[0], lines[0], *lines[1:]], "line 2", id="doubled"),
    ],
)
async def test_audit_verify_detects_a_changed_record(
    tmp_path: Path, spoil: Callable[..., list[str]], where: str
) -> None:
    await written(tmp_path)
    file = tmp_path / FILE
    file.write_text("".join(f"{line}\n" for line in spoil(file.read_text().splitlines())))
    assert where in verify(tmp_path).broken[0].message


async def test_audit_verify_detects_truncation_by_the_reported_hash(tmp_path: Path) -> None:
    opened = await written(tmp_path)
    file = tmp_path / FILE
    file.write_text("".join(f"{line}\n" for line in file.read_text().splitlines()[:-1]))
    assert verify(tmp_path).broken == ()
    assert opened.head is not None
    assert verify(tmp_path).head != opened.head.hash


async def test_audit_torn_record_is_kept_and_chained(tmp_path: Path) -> None:
    await written(tmp_path)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"seq": 6, "ev')
    opened = await written(tmp_path, 2)
    verdict = verify(tmp_path)
    assert (verdict.lines, verdict.torn, verdict.broken) == (8, 1, ())
    assert opened.head is not None
    assert (opened.head.lines, opened.head.hash) == (8, verdict.head)


@pytest.mark.parametrize(
    "last",
    [
        pytest.param('{"seq": "six"}', id="a number in words"),
        pytest.param('{"seq": null}', id="no number"),
        pytest.param("[" * 5000, id="what is nested deeply"),
    ],
)
async def test_audit_trail_continues_after_an_altered_last_record(last: str, tmp_path: Path) -> None:
    await written(tmp_path)
    with (tmp_path / FILE).open("a") as file:
        file.write(f"{last}\n")
    opened = await written(tmp_path, 1)
    assert (opened.head is not None and opened.head.lines, verify(tmp_path).lines) == (7, 7)


async def test_audit_unserialisable_record_is_reported_as_lost(tmp_path: Path) -> None:
    failures: list[int] = []
    opened = trail(tmp_path, failures=failures)
    with pytest.raises(AuditFailed):
        await opened.record("tool_call", {"result_summary": 7})
    await opened.record("tool_call", {"tool": "t"})
    await opened.aclose()
    assert (len(failures), opened.problem, verify(tmp_path).lines) == (1, None, 1)


async def test_audit_torn_record_is_completed_in_its_own_file(tmp_path: Path) -> None:
    await written(tmp_path)
    half = '{"seq": 6, "ev'
    with (tmp_path / FILE).open("a") as file:
        file.write(half)
    opened = await written(tmp_path, 1, most=(tmp_path / FILE).stat().st_size)
    assert (opened.head is not None and opened.head.lines) == 8
    assert backup_of(tmp_path / FILE).read_text().endswith(f"{half}\n")
    assert (verify(tmp_path).torn, verify(tmp_path).broken) == (1, ())


async def test_audit_torn_first_record_keeps_the_sequence(tmp_path: Path) -> None:
    await written(tmp_path)
    (tmp_path / FILE).rename(backup_of(tmp_path / FILE))
    (tmp_path / FILE).write_text('{"seq": 6, "ev')
    opened = await written(tmp_path, 1)
    assert (opened.head is not None and opened.head.lines) == 8


async def test_audit_record_is_written_after_its_caller_is_cancelled(tmp_path: Path) -> None:
    opened = trail(tmp_path)
    calls = [asyncio.create_task(opened.record("tool_call", {"tool": str(n)})) for n in range(20)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await opened.aclose()
    assert verify(tmp_path).lines == 20


async def test_audit_restore_counts_no_failure_and_writes_a_record(tmp_path: Path) -> None:
    failures: list[int] = []
    folder = tmp_path / "audit"
    folder.write_text("in the way")
    opened = trail(folder, failures=failures)
    with pytest.raises(AuditFailed):
        await opened.record("tool_call", {"tool": "t"})
    await opened.restore()
    assert (len(failures), opened.problem is None) == (1, False)
    folder.unlink()
    await opened.restore()
    await opened.restore()
    await opened.aclose()
    assert (opened.problem, verify(folder).lines) == (None, 1)


async def test_audit_concurrent_records_form_one_chain(tmp_path: Path) -> None:
    opened = trail(tmp_path)
    await asyncio.gather(*(opened.record("tool_call", {"tool": str(number)}) for number in range(200)))
    await opened.aclose()
    assert (verify(tmp_path).lines, verify(tmp_path).broken) == (200, ())


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, former)


async def test_audit_write_failure_is_counted_and_the_trail_recovers(tmp_path: Path) -> None:
    failures: list[int] = []
    opened = trail(tmp_path, failures=failures)
    await opened.record("tool_call", {"tool": "a"})
    with no_file_larger_than((tmp_path / FILE).stat().st_size + 40), pytest.raises(AuditFailed):
        await opened.record("tool_call", {"tool": "b"})
    assert len(failures) == 1
    assert opened.problem is not None
    await opened.record("tool_call", {"tool": "c"})
    await opened.aclose()
    assert opened.problem is None
    verdict = verify(tmp_path)
    assert (verdict.torn, verdict.broken) == (1, ())


async def test_audit_two_writers_form_one_chain_across_rotation(tmp_path: Path) -> None:
    one, other = trail(tmp_path, most=8192), trail(tmp_path, most=8192)
    for turn in range(30):
        for writer in (one, other):
            await asyncio.gather(*(writer.record("tool_call", {"tool": f"{turn}-{n}"}) for n in range(turn % 3)))
    await one.restore()
    await other.restore()
    verdict = verify(tmp_path)
    assert verdict.broken == ()
    assert one.head == other.head
    assert one.head is not None
    assert (one.head.lines, one.head.hash) == (60 + 1, verdict.head)
    for writer in (one, other):
        await writer.aclose()


async def test_audit_lock_timeout_is_reported_and_retried(tmp_path: Path) -> None:
    failures: list[int] = []
    opened = AuditTrail(
        tmp_path, redact=Redactor(), now_ns=lambda: 0, on_failure=lambda: failures.append(1), patience=3.0
    )
    await opened.record("tool_call", {"tool": "t"})
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = asyncio.create_task(opened.record("tool_call", {"tool": "t"}))
        others = 0
        async with within("the writer gives up waiting for the lock"):
            while not waiting.done():
                await asyncio.sleep(0.01)
                others += 1
        with pytest.raises(AuditFailed, match="another process holds it"):
            await waiting
    assert len(failures) == 1
    assert others > 5, "a waiting writer does not block others"
    await opened.restore()
    await opened.aclose()
    assert (opened.problem, verify(tmp_path).lines) == (None, 2)


async def test_audit_records_keep_the_order_of_their_calls(tmp_path: Path) -> None:
    opened = trail(tmp_path)
    texts = ["short", "long" * 2000, "short", "short", "long" * 2000, "short"] * 5
    lines = [{"tool": str(n), **call_line({"text": text}, text)} for n, text in enumerate(texts)]
    await asyncio.gather(*(opened.record("tool_call", line) for line in lines))
    for line in lines:
        await opened.record("tool_call", line)
    await opened.aclose()
    told = [json.loads(line)["tool"] for line in (tmp_path / FILE).read_text().splitlines()]
    assert told == [line["tool"] for line in lines] * 2
    assert verify(tmp_path).broken == ()


async def test_audit_torn_record_of_another_writer_is_chained(tmp_path: Path) -> None:
    opened = trail(tmp_path)
    await opened.record("tool_call", {"tool": "t"})
    with (tmp_path / FILE).open("a") as file:
        file.write('{"seq": 2, "ev')
    await opened.record("tool_call", {"tool": "t"})
    await opened.aclose()
    verdict = verify(tmp_path)
    assert (verdict.lines, verdict.torn, verdict.broken) == (3, 1, ())


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda lines: lines[:-1], id="cut off"),
        pytest.param(lambda lines: [*lines[:-1], lines[-1].replace("fine", "good")], id="altered"),
    ],
)
async def test_audit_verify_detects_a_changed_tail_of_a_live_trail(
    tmp_path: Path, spoil: Callable[..., list[str]]
) -> None:
    opened = trail(tmp_path)
    for n in range(3):
        await opened.record("tool_call", {"tool": "t", **call_line({"n": n}, "fine")})
    before = opened.head
    file = tmp_path / FILE
    file.write_text("".join(f"{line}\n" for line in spoil(file.read_text().splitlines())))
    await opened.restore()
    assert opened.head == before, "the reported head is unchanged"
    await opened.record("tool_call", {"tool": "t"})
    await opened.aclose()
    assert verify(tmp_path).broken != ()
