"""The runs: what each contains, and that the gate leaves nothing out that no other run contains."""

import subprocess
import sys

import pytest
from e2e.cluster.paths import CHECKOUT
from tests.rings.catalogue import RINGS, stages_of
from tests.rings.results import Results, ring_key, tree_of
from tests.rings.runner import Result


def names_of(stages):
    return [ring.name for stage in stages for ring in stage]


def test_test_needs_no_kubernetes_and_test_all_contains_every_ring():
    needs_kubernetes = {"programs", "controlplane", "sweep", "faults", "walk", "cluster"}
    assert not needs_kubernetes & set(names_of(stages_of(["test"])))
    assert sorted(names_of(stages_of(["test-all"]))) == sorted(RINGS)


def test_gate_leaves_out_exhaustive_tests_and_test_all_runs_them():
    (gate,) = (ring for stage in stages_of(["test"]) for ring in stage if ring.name == "process")
    (whole,) = (ring for stage in stages_of(["test-all"]) for ring in stage if ring.name == "process")
    assert "process and not exhaustive" in gate.command
    assert "process" in whole.command


def test_named_ring_runs_whole():
    assert stages_of(["sweep"]) == [[RINGS["sweep"].as_whole()]]
    assert "--share" not in RINGS["sweep"].as_whole().command


def test_unknown_name_lists_runs_and_rings():
    with pytest.raises(ValueError, match=r"'proces' is not a run or a ring .* one of check, test, .*process"):
        stages_of(["proces"])


def test_every_folder_of_tests_is_in_a_ring():
    commands = " ".join(word for ring in RINGS.values() for word in ring.command)
    folders = {path.parent.relative_to(CHECKOUT).parts[1] for path in (CHECKOUT / "tests").rglob("test_*.py")}
    assert {folder for folder in folders if f"tests/{folder}" not in commands} == set()


def test_green_rings_are_those_whose_last_result_is_green(tmp_path):
    results = Results(tmp_path, "tree")
    gate, whole = RINGS["sweep"], RINGS["sweep"].as_whole()
    results.add(Result(gate, status=1, seconds=1.0, failed=1))
    results.add(Result(whole, status=0, seconds=1.0, passed=1))
    assert results.green_rings() == {ring_key(whole)}
    results.add(Result(gate, status=0, seconds=1.0, passed=1))
    assert results.green_rings() == {ring_key(gate), ring_key(whole)}
    assert Results(tmp_path, "another").green_rings() == set()


@pytest.mark.process
def test_tree_changes_with_files_that_are_not_committed(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    empty = tree_of(tmp_path)
    (tmp_path / "new").write_text("one")
    first = tree_of(tmp_path)
    (tmp_path / "new").write_text("two")
    assert len({empty, first, tree_of(tmp_path)}) == 3
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert status.stdout == "?? new\n"  # The index of the checkout is unchanged.


@pytest.mark.process
def test_command_refuses_an_unknown_name():
    said = subprocess.run(
        [sys.executable, "-m", "tests.rings", "everything"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 2
    assert "choose one of check, test, test-cluster, test-all" in said.stderr
