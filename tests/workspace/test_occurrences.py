"""Occurrences of sequences, compared with a direct search on random ones."""

import random

import pytest

from fleetwright_workspace.text.line_merge import LineMerge
from fleetwright_workspace.text.occurrences import MOST_PLACES, line_occurrences, text_occurrences


@pytest.mark.parametrize("seed", range(5))
def test_occurrences_equal_a_direct_search(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(500):
        text = "".join(generator.choice("ab") for _ in range(generator.randrange(30)))
        wanted = "".join(generator.choice("ab") for _ in range(generator.randrange(1, 5)))
        direct = [index for index in range(len(text)) if text.startswith(wanted, index)]
        assert text_occurrences(text, wanted) == line_occurrences(list(text), list(wanted)) == direct


def test_occurrences_end_after_the_limit() -> None:
    assert len(text_occurrences("a" * 2 * MOST_PLACES, "aa")) == MOST_PLACES + 1


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        pytest.param(["a", "b", "c"], ["a", "x", "c"], ["A", "x", "C"], id="changed line"),
        pytest.param(["a", "b"], ["a", "x", "b"], ["A", "x", "B"], id="added line"),
        pytest.param(["a", "b", "c"], ["c"], ["C"], id="removed lines"),
        pytest.param(["a", "b", "c", "d"], ["x", "b", "y", "c", "z"], ["x", "B", "y", "C", "z"], id="shared inside"),
        pytest.param(["a", "x"] * 2000, ["a", "y"] * 2000, None, id="too many pairs"),
    ],
)
def test_shared_lines_stay_as_in_the_file(old: list[str], new: list[str], wanted: list[str] | None) -> None:
    merge = LineMerge(old, new)
    assert merge.is_known is (wanted is not None)
    if wanted is not None:
        assert merge.apply([line.upper() for line in old], new) == wanted
