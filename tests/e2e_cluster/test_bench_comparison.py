"""The comparison of two commits: its arithmetic, the order of the runs, and the choice of benchmarks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.compare import Side, alternate, choose_parts
from tests.bench.comparison import Comparison, Figure, RowKey, compare, read_figures, summarise, to_lines
from tests.bench.report import Report
from tests.bench.table import Row
from tests.support.machine import ceiling

KEY = RowKey("agent", "rates", "requests")


def compared(base, head, *, higher=False, reference=False):
    return Comparison(KEY, "ms", higher, reference, base, head)


@pytest.mark.parametrize(
    ("base", "head", "verdict"),
    [
        ([10, 11, 12], [12.5, 13, 14], "worse"),
        ([12.5, 13, 14], [10, 11, 12], "better"),
        ([10, 11, 12], [12, 13, 14], "same"),  # the ranges touch
        ([10, 11, 14], [13, 15, 16], "same"),  # the ranges overlap
        ([100, 100.5, 101], [105, 106, 107], "same"),  # the medians differ by less than a tenth
        ([10, 10, 10], [11, 11, 11], "same"),  # by exactly a tenth
        ([0, 0, 0], [1, 1, 1], "worse"),
        ([0, 0, 0], [0, 0, 0], "same"),
        ([-2, -1.9, -1.8], [1, 1.1, 1.2], "worse"),
        ([1], [], "one commit only"),
        ([], [1], "one commit only"),
    ],
)
def test_verdict_where_lower_is_better(base, head, verdict):
    assert compared(base, head).verdict == verdict


@pytest.mark.parametrize(
    ("base", "head", "verdict"),
    [([10, 11, 12], [13, 14, 15], "better"), ([13, 14, 15], [10, 11, 12], "worse"), ([10, 14], [11, 15], "same")],
)
def test_verdict_where_higher_is_better(base, head, verdict):
    assert compared(base, head, higher=True).verdict == verdict


def test_reference_is_not_judged():
    assert compared([1, 1], [5, 5], reference=True).verdict == "reference"


@pytest.mark.parametrize(
    ("base", "head", "ratio"),
    [([2, 4, 9], [8, 8, 8], 2.0), ([0], [1], None), ([-1], [1], None), ([-1], [-3], 3.0), ([], [1], None)],
)
def test_ratio_of_the_medians(base, head, ratio):
    assert compared(base, head).ratio == ratio


def test_row_and_its_reference_are_read_from_the_figures_of_a_benchmark(tmp_path):
    report = Report("agent")
    rows = [
        Row("requests", 5.0, "/s", 1.5, 4.0, at_least=True),
        Row("… floor", 3.0, "/s", is_reference=True),
        Row("start", 1.0, "s"),
    ]
    report.add("rates", rows)
    report.write(tmp_path / "figures.json")
    document = json.loads((tmp_path / "figures.json").read_text())
    assert read_figures(document) == {
        KEY: Figure(5.0, "/s", higher_is_better=True, is_reference=False),
        RowKey("agent", "rates", "requests (reference)"): Figure(4.0, "/s", higher_is_better=True, is_reference=True),
        RowKey("agent", "rates", "requests … floor"): Figure(3.0, "/s", higher_is_better=True, is_reference=True),
        RowKey("agent", "rates", "start"): Figure(1.0, "s", higher_is_better=False, is_reference=False),
    }


def test_table_of_two_commits():
    new = RowKey("agent", "rates", "requests … p99")
    requests = [Figure(value, "/s", higher_is_better=True, is_reference=False) for value in (10, 12, 11, 5, 6, 5.5)]
    added = Figure(1.0, "", higher_is_better=False, is_reference=False)
    base, head = [{KEY: each} for each in requests[:3]], [{KEY: each, new: added} for each in requests[3:]]
    comparisons = compare(base, head)
    assert to_lines(comparisons) == [
        ("agent:rates  requests", "11 /s [10–12]", "5.5 /s [5–6]", "0.50", "worse"),
        ("agent:rates  … p99", "", "1 [1–1]", "", "one commit only"),
    ]
    assert summarise(comparisons) == "1 rows, 1 worse, 0 better"


def test_runs_alternate_so_that_a_drift_affects_both():
    base, head = Side("base", Path("b")), Side("head", Path("h"))
    order = [f"{side.name} {run}" for run, side in alternate(base, head, 3)]
    assert order == ["base 0", "head 0", "head 1", "base 1", "base 2", "head 2"]


PARTS = {"agent": ["start", "rates"], "turn": ["durable"]}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("agent:rates", {"agent": ["rates"]}),
        ("turn agent", {"turn": ["durable"], "agent": ["start", "rates"]}),
        ("agent:rates agent:start,rates", {"agent": ["rates", "start"]}),
    ],
)
def test_benchmarks_and_parts_are_chosen(text, chosen):
    assert choose_parts(text, PARTS) == chosen


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("agents:rates", "there is no benchmark 'agents'; the benchmarks are agent, turn"),
        ("agent:rates,speed,", "agent has no part 'speed', ''; its parts are start, rates"),
        (" ", "choose benchmarks, for example 'agent:start turn'; there are agent, turn"),
    ],
)
def test_unknown_benchmark_or_part_is_refused_with_a_list(text, sentence):
    with pytest.raises(ValueError) as refused:
        choose_parts(text, PARTS)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("base", "parts", "sentence"),
    [
        ("HEAD", "workspace:speed", "workspace has no part 'speed'; its parts are read, command, search, edit, memory"),
        ("no-commit", "workspace:read", "'no-commit' is not a commit of this repository"),
    ],
)
def test_comparison_refuses_what_it_cannot_compare(base, parts, sentence, process_ring):
    words = [sys.executable, "-m", "tests.bench.compare", "--base", base, "--parts", parts]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ceiling())
    assert done.returncode == 2
    assert sentence in done.stderr
