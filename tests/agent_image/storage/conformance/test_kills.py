"""A kill between the statements of a unit of work leaves all of it or nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent_image.storage.conformance.units_of_work import UNITS
from tests.support.machine import ceiling

_ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def states_of_units(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The states after a kill at each statement, in order, by unit. One process measures all units."""
    runner = subprocess.run(
        [
            *(sys.executable, "-m", "tests.agent_image.storage.conformance.kill_runner"),
            str(tmp_path_factory.mktemp("kills")),
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=ceiling(),
        check=False,
    )
    assert (runner.returncode, runner.stderr) == (0, "")
    states: dict[str, list[Any]] = json.loads(runner.stdout)
    return states


@pytest.mark.parametrize("unit", UNITS)
def test_kill_leaves_all_of_a_unit_or_nothing(unit: str, states_of_units: dict[str, list[Any]]) -> None:
    states = states_of_units[unit]
    nothing, everything = states[0], states[-1]
    assert nothing != everything
    assert len(states) > 3
    assert [state for state in states if state not in (nothing, everything)] == []
