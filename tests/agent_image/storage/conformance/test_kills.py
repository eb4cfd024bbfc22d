"""A kill between the statements of a unit of work leaves all of it or nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent_image.storage.conformance.units_of_work import UNITS

pytestmark = pytest.mark.starts_first

_ROOT = Path(__file__).parents[4]


@pytest.mark.process
@pytest.mark.parametrize("unit", UNITS)
def test_kill_leaves_all_of_a_unit_or_nothing(unit: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    runner = subprocess.run(
        [sys.executable, "-m", "tests.agent_image.storage.conformance.kill_runner", unit, str(tmp_path)],
        cwd=_ROOT,
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (runner.returncode, runner.stderr) == (0, "")
    states = json.loads(runner.stdout)
    nothing, everything = states[0], states[-1]
    assert nothing != everything
    assert len(states) > 3
    assert [state for state in states if state not in (nothing, everything)] == []
