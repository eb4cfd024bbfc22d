"""The runner on small rings: what is repeated, what is red, and what a ceiling prints."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import CANNOT_RUN
from tests.rings.__main__ import run_stages
from tests.rings.catalogue import PYTEST, Ring
from tests.rings.results import ResultStore
from tests.rings.runner import (
    MOST_UNSTABLE,
    NICENESS,
    Result,
    UnstableTest,
    count_allowed_failures,
    repeat_failures,
    run_ring,
)
from tests.rings.summary import count_failures, format_summary, has_failures
from tests.support.machine import ceiling
from tests.support.waiting import await_until

pytestmark = pytest.mark.process
AUTOGROUP = Path("/proc/self/autogroup")


@pytest.fixture
def folder():
    """A folder inside the checkout, because pytest names tests relative to the folder of its settings."""
    (CHECKOUT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build", prefix="rings-") as name:
        yield Path(name)


def pytest_ring(folder, source, **settings):
    file = folder / "test_sample.py"
    file.write_text(textwrap.dedent(source))
    return Ring("sample", (*PYTEST, str(file.relative_to(CHECKOUT))), 1, **settings)


def command_ring(script, **settings):
    return Ring("command", (sys.executable, "-c", script), **({"quiet_seconds": 60} | settings))


def failing_once(folder):
    """A script that fails only if it runs for the first time."""
    seen = str(folder / "seen")
    return f"import pathlib, sys; file = pathlib.Path({seen!r}); file.exists() or sys.exit(file.touch() or 1)"


async def run(ring, folder):
    return await repeat_failures(await run_ring(ring, is_concurrent=False, folder=folder), folder)


async def test_failed_build_ends_the_run_and_other_failures_do_not(folder):
    build = replace(command_ring("import sys; sys.exit(1)", repeats=False, builds=True), name="build")
    red, later = (
        replace(command_ring(f"import sys; sys.exit({code})", repeats=False), name=str(code)) for code in (1, 0)
    )
    stages = [[red], [later], [build], [later]]
    results = await run_stages(stages, ResultStore(folder, CHECKOUT), folder)
    assert [(result.status, result.reason) for result in results[1:]] == [
        (0, ""),
        (1, ""),
        (CANNOT_RUN, "build failed"),
    ]


async def test_ring_starts_after_those_that_it_names(folder):
    seen = folder / "seen"
    first = command_ring(f"import pathlib, time; time.sleep(0.3); pathlib.Path({str(seen)!r}).touch()", repeats=False)
    second = command_ring(f"import pathlib, sys; sys.exit(not pathlib.Path({str(seen)!r}).exists())", repeats=False)
    stage = [
        replace(second, name="second", after=("first", "a ring of another run")),
        replace(first, name="first"),
    ]
    results = await run_stages([stage], ResultStore(folder, CHECKOUT), folder)
    assert [(result.ring.name, result.is_green) for result in results] == [("second", True), ("first", True)]


async def test_ring_that_only_computes_lets_others_come_first(folder):
    script = f"import os, sys; sys.exit(0 if os.nice(0) > {os.nice(0)} else 1)"
    results = [await run(command_ring(script, repeats=False, yields=yields), folder) for yields in (True, False)]
    assert [result.is_green for result in results] == [True, False]


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="the kernel does not divide the processors among sessions")
async def test_session_of_a_ring_that_only_computes_comes_last(folder):
    script = f"""
    import sys, time
    end = time.monotonic() + {ceiling()}
    while not open("{AUTOGROUP}").read().endswith("nice {NICENESS}\\n"):
        if time.monotonic() > end:
            sys.exit("the session still has its share")
        time.sleep(0.01)
    """
    result = await run(command_ring(textwrap.dedent(script), repeats=False, yields=True), folder)
    assert result.is_green


async def test_ring_of_passing_tests_is_green(folder):
    result = await run(pytest_ring(folder, "def test_one(): pass\ndef test_two(): pass"), folder)
    assert (result.is_green, result.passed, result.failed, result.unstable) == (True, 2, 0, ())


async def test_test_that_passes_when_repeated_is_unstable_and_green(folder):
    source = f"""
        from pathlib import Path

        def test_good(): pass

        def test_bad_once():
            seen = Path({str(folder)!r}) / "seen"
            if not seen.exists():
                seen.touch()
                raise AssertionError("the first time")
    """
    result = await run(pytest_ring(folder, source), folder)
    assert (result.is_green, result.passed, result.failed) == (True, 2, 0)
    (unstable,) = result.unstable
    assert unstable.test.endswith("::test_bad_once")
    assert "the first time" in unstable.failure
    assert "1 passed" in unstable.repetition
    printed = "\n".join(format_summary([result], {}, in_ci=True))
    assert "the first time" in printed
    assert f"unstable: {unstable.test}" in printed
    assert printed.endswith("2 passed, 0 failed")


async def test_summary_names_a_skipped_test_with_its_reason_and_fails_in_ci(folder):
    source = "import pytest\ndef test_good(): pass\ndef test_chart(): pytest.skip('there is no helm')"
    ring = pytest_ring(folder, source)
    result = await run(ring, folder)
    test = f"{ring.command[-1]}::test_chart"
    assert f"    {test} could not run: Skipped: there is no helm" in format_summary([result], {}, in_ci=True)
    assert [count_failures([result], in_ci=in_ci) for in_ci in (False, True)] == [0, 1]


async def test_test_that_fails_twice_is_a_fault(folder):
    result = await run(pytest_ring(folder, "def test_one(): pass\ndef test_bad(): assert False"), folder)
    assert (result.is_green, result.passed, result.failed, result.unstable) == (False, 1, 1, ())


async def test_many_failures_are_not_repeated(folder):
    source = "import pytest\n@pytest.mark.parametrize('n', range(12))\ndef test_bad(n): assert False"
    result = await run(pytest_ring(folder, source), folder)
    assert result.failed == 12
    assert "at most 1 are repeated" in result.reason


async def test_file_that_cannot_be_collected_is_a_fault(folder):
    result = await run(pytest_ring(folder, "import no_such_module"), folder)
    assert (result.is_green, result.failed) == (False, 1)


async def test_failing_teardown_is_a_fault(folder):
    source = """
        import pytest

        @pytest.fixture
        def broken():
            yield
            raise AssertionError("teardown")

        def test_good(broken): pass
    """
    result = await run(pytest_ring(folder, source), folder)
    assert (result.is_green, result.passed, result.failed) == (False, 0, 1)


async def test_failing_end_of_a_session_is_not_repeated_with_its_last_test(folder):
    source = f"""
        from pathlib import Path
        import pytest

        @pytest.fixture(scope="session")
        def operator():
            yield
            seen = Path({str(folder)!r}) / "seen"
            if not seen.exists():
                seen.touch()
                raise AssertionError("the operator was refused a permission")

        def test_culprit(operator): pass
        def test_last(operator): pass
    """
    result = await run(pytest_ring(folder, source), folder)
    assert (result.is_green, result.passed, result.failed, result.unstable) == (False, 1, 1, ())


async def test_process_that_keeps_the_output_open_does_not_delay_the_ring(folder):
    script = "import subprocess, sys; print('done'); subprocess.Popen(['sleep', '86400'])"
    result = await run(command_ring(script), folder)
    assert (result.is_green, result.passed) == (True, 1)


async def test_ring_at_its_ceiling_names_the_open_tests(folder):
    source = "import time\ndef test_good(): pass\ndef test_endless(): time.sleep(600)"
    result = await run(pytest_ring(folder, source, least_ceiling_seconds=6), folder)
    assert (result.is_green, result.passed, result.failed) == (False, 1, 1)
    assert "test_sample.py::test_endless" in result.reason


async def test_command_at_its_ceiling_refers_to_its_output(folder):
    result = await run(command_ring("import time; time.sleep(600)", quiet_seconds=1, least_ceiling_seconds=6), folder)
    assert (result.is_green, result.failed) == (False, 1)
    assert result.reason == "ended at its ceiling; see the output above"


RUN_WITHOUT_INTERRUPTS = """
import asyncio, signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_IGN)
from e2e.cluster.paths import CHECKOUT
from tests.rings.__main__ import _run_until_signal
from tests.rings.catalogue import Ring
from tests.rings.results import ResultStore
ring = Ring("endless", (sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"), 60)
folder = Path(sys.argv[1])
asyncio.run(_run_until_signal([[ring]], ResultStore(folder, CHECKOUT), folder))
"""


def test_ring_is_interrupted_although_its_runner_ignores_interrupts(folder):
    """A shell starts programs in the background with SIGINT ignored, and programs inherit that."""
    command = [sys.executable, "-c", RUN_WITHOUT_INTERRUPTS, str(folder)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        while (line := runner.stdout.readline()) != "begun\n":
            assert line, "the runner ended before its ring began"
        runner.terminate()
        output = runner.stdout.read()
    assert runner.returncode == 128 + signal.SIGTERM
    assert "KeyboardInterrupt" in output


async def test_command_that_fails_once_is_unstable(folder):
    result = await run(command_ring(failing_once(folder)), folder)
    assert result.is_green
    assert [found.test for found in result.unstable] == ["command"]


async def test_command_that_is_not_repeated_fails_at_once(folder):
    result = await run(command_ring(failing_once(folder), repeats=False), folder)
    assert (result.is_green, result.failed) == (False, 1)


@pytest.mark.parametrize(("in_ci", "failures"), [(True, 1), (False, 0)], ids=["in CI", "elsewhere"])
async def test_ring_that_cannot_run_says_why_and_fails_in_ci_only(folder, in_ci, failures):
    result = await run(command_ring(f"print('no docker here'); raise SystemExit({CANNOT_RUN})"), folder)
    assert count_failures([result], in_ci=in_ci) == failures
    assert "could not run: no docker here" in "\n".join(format_summary([result], {}, in_ci=in_ci))


@pytest.mark.parametrize(
    ("tests", "allowed"),
    [
        pytest.param(1, 1, id="one, in a small ring"),
        pytest.param(450, 4, id="a hundredth"),
        pytest.param(7000, 10, id="ten, in a large ring"),
    ],
)
def test_allowed_unstable_tests_grow_with_the_ring(tests, allowed):
    assert count_allowed_failures(tests) == allowed


async def test_ring_runs_without_variables_that_would_change_its_result(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a key of the caller")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    ring = command_ring(
        "import os, sys; sys.exit(sum(name in os.environ for name in ('OPENAI_API_KEY', 'PYTEST_ADDOPTS')))"
    )
    assert (await run(ring, folder)).is_green


def test_unstable_tests_of_rings_that_are_green_already_count():
    skipped = {"unit": [f"test_{number}" for number in range(MOST_UNSTABLE)]}
    ring = command_ring("", repeats=False)
    result = Result(ring, 0, 1.0, passed=1, unstable=(UnstableTest("test_last", "a", "b"),))
    assert not has_failures([replace(result, unstable=())], skipped, in_ci=False)
    assert has_failures([result], skipped, in_ci=False)
    lines = format_summary([result], skipped, in_ci=False)
    assert lines[-2:] == ["red, because 11 tests are unstable and at most 10 may be", "1 passed, 11 failed"]


@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
async def test_tests_that_a_crashed_worker_left_out_are_a_fault(folder, number):
    """pytest-xdist 3.8 drops the rest of the file. Without the count, the repetition of the crash would pass."""
    source = f"""
        import os
        from pathlib import Path

        def test_first(): pass

        def test_crash():
            seen = Path({str(folder)!r}) / "seen"
            if not seen.exists():
                seen.touch()
                os._exit(3)

        def test_bad(): assert False
    """
    ring = pytest_ring(folder, source)
    options = ("-n", str(number), "--dist", "loadfile", "--max-worker-restart=0")
    ring = replace(ring, command=(*ring.command, *options))
    result = await run(ring, folder)
    assert (result.is_green, result.unstable) == (False, ())
    assert "have no outcome, as after the crash of a worker" in result.reason


async def test_git_of_a_test_leaves_the_repository_of_a_hook_alone(folder, monkeypatch, tmp_path):
    """git sets GIT_DIR for a hook. The repository there must not get the commits of tests."""
    for name, value in (("GIT_DIR", str(tmp_path)), ("GIT_INDEX_FILE", str(tmp_path / "index"))):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GIT_SSL_CAINFO", "/ca.pem")
    asks = "import os; assert not {'GIT_DIR', 'GIT_INDEX_FILE'} & os.environ.keys(); os.environ['GIT_SSL_CAINFO']"
    assert (await run(command_ring(asks, repeats=False), folder)).is_green
    command = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n")
    monkeypatch.setenv("HOME", str(home))
    (folder / "repository").mkdir()
    script = (
        f"import subprocess; subprocess.run({command!r}, shell=True, check=True, cwd={str(folder / 'repository')!r})"
    )
    assert (await run(command_ring(script, repeats=False), folder)).is_green


async def test_interrupted_stage_keeps_the_results_of_rings_that_have_ended(folder):
    quick, slow = (
        replace(command_ring(f"import time; time.sleep({seconds})"), name=name)
        for name, seconds in (("quick", 0), ("slow", 1000))
    )
    results = Recorded()
    running = asyncio.ensure_future(run_stages([[quick, slow]], results, folder))
    await await_until(lambda: results.rings, "the quick ring is recorded", shown=lambda: results.rings)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert results.rings == ["quick"]


class Recorded:
    """A store of results in memory."""

    def __init__(self):
        self.rings = []

    def add(self, result):
        self.rings.append(result.ring.name)


def test_summary_says_how_many_skipped_tests_it_omits():
    skipped = {f"test_{number}": "no helm" for number in range(25)}
    lines = format_summary([Result(command_ring(""), 0, 1.0, passed=1, skipped=skipped)], {}, in_ci=False)
    assert "    and 5 more" in lines


@pytest.mark.parametrize("factor", ["abc", "0.5", "nan"])
def test_factor_that_is_no_number_of_at_least_one_is_refused(factor):
    done = subprocess.run(
        [sys.executable, "-m", "tests.rings", "static"],
        cwd=CHECKOUT,
        env={**os.environ, "FLEETWRIGHT_MACHINE_FACTOR": factor},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"FLEETWRIGHT_MACHINE_FACTOR is '{factor}': use a number of at least 1" in done.stderr
