"""Figures of a benchmark that cannot be true."""

import math

import pytest
from tests.bench.figures import find_impossible_figures
from tests.bench.table import Row, name_rows


def test_a_row_that_continues_another_has_its_name():
    rows = [Row("  after: network", 1, "s"), Row("call", 1, "ms"), Row("… p99", 2, "ms"), Row("  floor", 1, "ms")]
    assert [name for name, _ in name_rows(rows)] == ["… after: network", "call", "call … p99", "call … floor"]


@pytest.mark.parametrize(
    "rows",
    [
        [Row("call, p50", 1.0, "ms"), Row("call, p99", 1.0, "ms")],
        [Row("call, p50", 2.0, "ms"), Row("other call, p99", 1.0, "ms")],
        [Row("call", 0.0, "s"), Row("memory", 0.0, "MiB", 1.0)],
        [Row("what the agent adds", -1.0, "ms", is_difference=True)],
        [Row("added, p50", 2.0, "ms", is_difference=True), Row("added, p99", 1.0, "ms", is_difference=True)],
        [Row("call, p50", 3.0, "ms"), Row("call, least", 1.0, "ms"), Row("call, maximum", 3.0, "ms")],
        [Row("rate", 5.0, "/s", 2.0, 3.0, at_least=True), Row("… p99", 4.0, "ms")],
        [Row("list, p50", 5.0, "ms"), Row("… p99", 6.0, "ms"), Row("search, p50", 1.0, "ms"), Row("… p99", 2.0, "ms")],
    ],
)
def test_possible_figures(rows):
    assert find_impossible_figures(rows) == []


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "there is no figure"),
        ([Row("compaction", -861.0, "ms", 20.0)], "compaction: -861 ms is negative"),
        ([Row("compaction", math.nan, "ms")], "compaction: nan ms is not a number"),
        ([Row("adds", math.inf, "ms", is_difference=True)], "adds: inf ms is not a number"),
        ([Row("requests", 0.0, "/s")], "requests: 0 /s, so nothing was measured"),
        ([Row("requests", 1.0, "/s", None, 0.0)], "requests: the reference is 0 /s, so nothing was measured"),
        ([Row("CPU", 1.0, "s", 0.1, 0.0)], "CPU: the reference is 0, so there is no ratio"),
        ([Row("CPU", 1.0, "s", 0.1, -1.0)], "CPU: the reference is -1 s is negative"),
        (
            [Row("call, p50", 3.0, "ms"), Row("… p99", 2.0, "ms")],
            "call, p50 … p99: 2 is less than 3, the figure of 'call, p50'",
        ),
        (
            [Row("call, p50", 3.0, "ms"), Row("call, least", 4.0, "ms")],
            "call, p50: 3 is less than 4, the figure of 'call, least'",
        ),
        ([Row("call", 1.0, "ms"), Row("call", 1.0, "ms")], "call: two rows have this name"),
    ],
)
def test_impossible_figure_is_named(rows, sentence):
    assert find_impossible_figures(rows) == [sentence]
