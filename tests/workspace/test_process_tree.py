"""The descendants of a process are the same from both sources of the kernel."""

import os
import subprocess

import pytest
from tests.support.waiting import wait_until

from fleetwright_workspace.executor import process_tree


@pytest.mark.process
def test_both_sources_tell_the_same_children() -> None:
    shell = subprocess.Popen(["bash", "-c", "sleep 100 & sleep 100 & wait"])
    try:
        wait_until(lambda: len(process_tree.descendants(shell.pid)) == 2, "both processes run")
        assert shell.pid in process_tree.children_of(os.getpid())
        listed, scanned = process_tree._listed_children, process_tree._all_children()
        assert sorted(listed(shell.pid)) == sorted(scanned(shell.pid)) == sorted(process_tree.descendants(shell.pid))
    finally:
        for pid in [*process_tree.descendants(shell.pid), shell.pid]:
            os.kill(pid, 9)
        shell.wait()
    assert process_tree.descendants(shell.pid) == []
