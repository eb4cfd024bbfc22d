"""The command line of the benchmarks: choice of parts, figures as JSON, and exit status."""

import argparse
import asyncio
import importlib
import json
import math
import subprocess
import sys

import pytest
from e2e.cluster.progress import CannotRun
from tests.bench.parts import Part, add_parts_option, list_benches
from tests.bench.report import Report
from tests.bench.table import Row
from tests.support.machine import ceiling

BENCHMARKS = ("agent", "compaction", "gateway", "operator", "terminal", "turn", "wake", "workspace")


@pytest.mark.parametrize(
    ("words", "parts"),
    [([], ["one", "two"]), (["--parts", "two"], ["two"]), (["--parts", "two,one"], ["two", "one"])],
)
def test_parts_are_chosen_in_the_given_order(words, parts):
    parser = argparse.ArgumentParser()
    add_parts_option(parser, ("one", "two"))
    assert parser.parse_args(words).parts == parts


@pytest.mark.parametrize(
    ("text", "unknown"), [("three", "'three'"), ("one,three,four", "'three', 'four'"), ("", "''"), ("one,", "''")]
)
def test_unknown_part_ends_with_a_list_of_the_parts(text, unknown, capsys):
    parser = argparse.ArgumentParser()
    add_parts_option(parser, ("one", "two"))
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--parts", text])
    assert ended.value.code == 2
    assert f"argument --parts: there is no part {unknown}; the parts are one, two\n" in capsys.readouterr().err


def test_all_benchmarks_are_listed():
    assert tuple(list_benches()) == BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_refuses_an_unknown_part_at_once(name, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"tests.bench.{name}_bench").main(["--parts", "nothing"])
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert "there is no part 'nothing'; the parts are " in printed.err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_has_a_smallest_form(name):
    parts = importlib.import_module(f"tests.bench.{name}_bench").PARTS
    assert any(part.smoke is not None for part in parts.values())


def test_benchmark_is_a_program(process_ring):
    words = [sys.executable, "-m", "tests.bench.workspace_bench", "--parts", "nothing"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ceiling())
    assert (done.returncode, done.stdout) == (2, "")


def measure_well(*, times: int = 100) -> list[Row]:
    return [Row("calls", float(times), "/s"), Row("… p50", 2.0, "ms", 1.0)]


async def measure_nothing() -> list[Row]:
    return [Row("duration", math.nan, "s")]


def break_down() -> list[Row]:
    raise RuntimeError("no server")


def need_a_program() -> list[Row]:
    raise CannotRun("it needs a program")


PARTS = {
    "well": Part(measure_well, {"times": 1}),
    "nan": Part(measure_nothing),
    "broken": Part(break_down),
    "obstacle": Part(need_a_program),
    "elsewhere": Part(break_down, None),
}


def run(names, *, smoke=False):
    report = Report("sample", parts=names, smoke=smoke)
    asyncio.run(report.run_parts(PARTS, names))
    return report


def test_missed_bar_is_no_problem(tmp_path, capsys):
    assert run(["well"]).finish(tmp_path / "figures.json") == 0
    assert "bars: 0 of 1 hold" in capsys.readouterr().out


def test_figures_are_written_as_json(tmp_path):
    run(["well"]).finish(tmp_path / "figures.json")
    document = json.loads((tmp_path / "figures.json").read_text())
    assert document["bench"] == "sample"
    assert [(row["part"], row["name"], row["ours"], row["unit"], row["better"]) for row in document["rows"]] == [
        ("well", "calls", 100.0, "/s", "higher"),
        ("well", "calls … p50", 2.0, "ms", "lower"),
    ]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken", "sample: broken broke: RuntimeError('no server')"),
        ("nan", "sample: nan: duration: nan s is not a number"),
    ],
)
def test_broken_part_and_impossible_figure_end_with_1_after_the_other_parts(name, sentence, tmp_path, capsys):
    assert run([name, "well"]).finish(tmp_path / "figures.json") == 1
    printed = capsys.readouterr().out
    assert sentence in printed.splitlines()
    assert "calls" in printed
    assert json.loads((tmp_path / "figures.json").read_text())["problems"] == [sentence]


def test_parts_that_cannot_run_end_with_77_and_the_reason(tmp_path, capsys):
    assert run(["obstacle"]).finish(tmp_path / "figures.json") == 77
    assert capsys.readouterr().out.splitlines()[-1] == "sample: obstacle cannot run: it needs a program"
    assert run(["obstacle", "well"]).finish(tmp_path / "figures.json") == 0


def test_smallest_form_has_its_own_arguments_and_leaves_out_what_the_gate_shows(capsys):
    report = run(["well", "elsewhere"], smoke=True)
    assert {name: rows[0].ours for name, rows in report.rows.items()} == {"well": 1.0}
    assert not report.problems
    assert "elsewhere is left out: a test runs its smallest form" in capsys.readouterr().out
