"""Names of namespaces, which several processes take from one counter."""

import re
import subprocess
import sys

import pytest
from e2e.cluster.paths import CHECKOUT

NAMES = 100
TAKE_NAMES = f"from e2e.cluster.ports import next_name; print(*(next_name('fleet') for _ in range({NAMES})))"


@pytest.mark.process
def test_next_name_is_different_in_all_processes():
    takers = [
        subprocess.Popen([sys.executable, "-c", TAKE_NAMES], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    names = [name for taker in takers for name in taker.communicate()[0].split()]
    assert len(set(names)) == len(takers) * NAMES
    # No name is the beginning of another one, because a watch may select namespaces by the beginning of their names.
    assert [name for name in names if not re.fullmatch("fleet-[0-9a-f]{7}", name)] == []
