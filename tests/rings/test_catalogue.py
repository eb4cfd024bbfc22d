"""The runs: what each contains, which tests the gate omits, and the removal of the cluster in CI."""

import subprocess
import sys

import pytest
from e2e.cluster.paths import CHECKOUT
from tests.rings.__main__ import remove_cluster
from tests.rings.catalogue import RINGS, RUNS, select_stages
from tests.rings.results import ResultStore, hash_tree, ring_key, select_skipped
from tests.rings.runner import Result, UnstableTest


def names_of(stages):
    return [ring.name for stage in stages for ring in stage]


def test_test_needs_no_kubernetes_and_test_all_contains_every_ring():
    needs_kubernetes = {"programs", "controlplane", "sweep", "faults", "walk", "cluster"}
    assert not needs_kubernetes & set(names_of(select_stages(["test"])))
    assert sorted(names_of(select_stages(["test-all"]))) == sorted(RINGS)


@pytest.mark.parametrize("name", ["agent", "process"])
def test_gate_leaves_out_exhaustive_tests_and_test_all_runs_them(name):
    (gate,) = (ring for stage in select_stages(["test"]) for ring in stage if ring.name == name)
    (whole,) = (ring for stage in select_stages(["test-all"]) for ring in stage if ring.name == name)
    assert {"process and not exhaustive", "--hypothesis-profile=gate"} <= {*gate.command}
    assert "process" in whole.command
    assert "--hypothesis-profile=gate" not in whole.command


def test_only_rings_whose_conftest_registers_the_profile_use_it():
    rings = [ring for run in RUNS for stage in select_stages([run]) for ring in stage if ring.is_pytest]
    using = {ring.name for ring in rings if "--hypothesis-profile=gate" in ring.command}
    outside = {ring.name for ring in rings if any(word.startswith("e2e/") for word in ring.command)}
    assert {"unit", "process", "controlplane"} <= using
    assert outside
    assert not outside & using


def test_rings_wait_for_rings_that_wait_for_none_of_them():
    started, left = set(), dict(RINGS)
    while ready := [name for name, ring in left.items() if {*ring.after} <= started]:
        started.update(ready)
        for name in ready:
            del left[name]
    assert not left, "these rings wait for each other, or for a ring that does not exist"


def test_ring_that_is_named_twice_runs_once():
    assert names_of(select_stages(["unit", "unit"])) == ["unit"]


@pytest.mark.parametrize("run", ["test", "test-all"])
def test_rings_that_yield_may_wait_for_all_rings_beside_them(run):
    (stage,) = (stage for stage in select_stages([run]) if "agent" in names_of([stage]))
    ceilings = {ring.name: ring.ceiling_seconds for ring in stage}
    assert ceilings["unit"] == ceilings["static"] >= ceilings["commands"] + ceilings["agent"]


def test_commands_run_beside_rings_that_yield_and_builds_only():
    (stage,) = select_stages(["test"])
    beside = {ring.name for ring in stage if "commands" not in ring.after} - {"commands"}
    assert beside == {"static", "unit", "helm"}


def test_named_ring_runs_whole():
    assert select_stages(["sweep"])[-1] == [RINGS["sweep"].to_whole_ring()]
    assert "--share" not in RINGS["sweep"].to_whole_ring().command


def test_unknown_name_lists_runs_and_rings():
    with pytest.raises(ValueError, match=r"'proces' is not a ring .* one of the runs check, test, .*process"):
        select_stages(["proces"])


def test_programs_of_a_control_plane_are_built_before_its_tests():
    build, tests = names_of(select_stages(["controlplane"])), select_stages(["controlplane"])[-1]
    assert build == ["programs", "controlplane"]
    assert tests == [RINGS["controlplane"].to_whole_ring()]
    assert names_of(select_stages(["unit", "process"])) == ["unit", "process"]


def test_each_process_test_without_a_cluster_is_in_one_ring():
    rings = [RINGS[name] for name in ("commands", "agent", "process", "charts")]
    modules = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "tests").rglob("test_*.py")}
    modules = {path for path in modules if not path.startswith(("tests/controlplane", "tests/faults"))}
    selected = {path: [ring.name for ring in rings if _selects(ring, path)] for path in modules}
    assert {path: names for path, names in selected.items() if len(names) != 1} == {}


def _selects(ring, path):
    folders = [word for word in ring.command if word.startswith("tests/")]
    ignored = [word.removeprefix("--ignore=") for word in ring.command if word.startswith("--ignore=")]
    return path.startswith(tuple(f"{each}/" for each in folders)) and not path.startswith(tuple(ignored))


def test_every_folder_of_tests_is_in_a_ring():
    commands = " ".join(word for ring in RINGS.values() for word in ring.command)
    folders = {path.parent.relative_to(CHECKOUT).parts[1] for path in (CHECKOUT / "tests").rglob("test_*.py")}
    assert {folder for folder in folders if f"tests/{folder}" not in commands} == set()


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "seconds", "wanted"),
    [
        pytest.param(["true"], 60, "", id="removed"),
        pytest.param(["false"], 60, "the cluster was not removed, exit code 1; run `make down`", id="an error"),
        pytest.param(["sleep", "600"], 0.1, "the cluster was not removed in 0 s; run `make down`", id="too late"),
    ],
)
def test_cluster_that_is_not_removed_is_reported(command, seconds, wanted):
    assert remove_cluster(command, seconds=seconds) == wanted


@pytest.fixture
def checkout(process_ring, tmp_path):
    folder = tmp_path / "checkout"
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "file").write_text("one")
    return folder


def test_green_rings_are_those_whose_last_result_is_green(checkout, tmp_path):
    results = ResultStore(tmp_path, checkout)
    gate, whole = RINGS["sweep"], RINGS["sweep"].to_whole_ring()
    results.add(Result(gate, status=1, seconds=1.0, failed=1))
    results.add(Result(whole, status=0, seconds=1.0, passed=1))
    assert results.read_green_rings() == {ring_key(whole): []}
    results.add(Result(gate, status=0, seconds=1.0, passed=1, unstable=(UnstableTest("test_x", "why", "passed"),)))
    assert results.read_green_rings() == {ring_key(gate): ["test_x"], ring_key(whole): []}
    (checkout / "file").write_text("two")
    assert ResultStore(tmp_path, checkout).read_green_rings() == {}


@pytest.mark.parametrize(
    ("green", "in_ci", "skipped"),
    [
        (["cluster"], False, {"cluster"}),
        (["cluster"], True, set()),  # Its cluster was removed, and the benchmarks need one.
        (["cluster", "bench"], True, {"cluster", "bench"}),
    ],
)
def test_ring_whose_cluster_the_benchmarks_need_runs_again_in_ci(green, in_ci, skipped):
    stages = [[RINGS["cluster"]], [RINGS["bench"]]]
    known = {ring_key(RINGS[name]): ["test_x"] for name in green}
    assert select_skipped(stages, known, in_ci=in_ci) == {name: ["test_x"] for name in skipped}


def test_ring_with_skipped_tests_runs_again(checkout, tmp_path):
    results = ResultStore(tmp_path, checkout)
    results.add(Result(RINGS["unit"], status=0, seconds=1.0, passed=1, skipped={"test_x": "no helm"}))
    assert results.read_green_rings() == {}


def test_ring_that_builds_programs_runs_again(checkout, tmp_path):
    results = ResultStore(tmp_path, checkout)
    results.add(Result(RINGS["helm"], status=0, seconds=1.0, passed=1))
    assert results.read_green_rings() == {}


def test_result_of_a_tree_that_was_changed_meanwhile_is_not_recorded(checkout, tmp_path):
    results = ResultStore(tmp_path, checkout)
    (checkout / "file").write_text("two")
    results.add(Result(RINGS["unit"], status=0, seconds=1.0, passed=1))
    assert results.read_green_rings() == {}
    assert ResultStore(tmp_path, checkout).read_green_rings() == {}


@pytest.mark.process
def test_folder_that_git_does_not_know_has_no_results(tmp_path):
    results = ResultStore(tmp_path, tmp_path)
    results.add(Result(RINGS["unit"], status=0, seconds=1.0, passed=1))
    assert (results.is_known, results.read_green_rings(), list(tmp_path.iterdir())) == (False, {}, [])


@pytest.mark.process
def test_tree_changes_with_files_that_are_not_committed(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    empty = hash_tree(tmp_path)
    (tmp_path / "new").write_text("one")
    first = hash_tree(tmp_path)
    (tmp_path / "new").write_text("two")
    assert len({empty, first, hash_tree(tmp_path)}) == 3
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert status.stdout == "?? new\n"  # The index of the checkout is unchanged.


def test_runs_stand_alone():
    with pytest.raises(ValueError, match="'test' is a run of many rings; give it alone"):
        select_stages(["test", "unit"])


@pytest.mark.process
def test_command_refuses_an_unknown_name():
    said = subprocess.run(
        [sys.executable, "-m", "tests.rings", "everything"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 2
    assert "choose one of the runs check, test, test-cluster, test-all" in said.stderr
