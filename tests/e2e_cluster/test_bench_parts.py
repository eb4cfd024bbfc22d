"""The option `--parts` of the benchmarks."""

import argparse
import subprocess
import sys

import pytest
from tests.bench.parts import add_parts_option

BENCHMARKS = ("agent", "gateway", "operator", "terminal", "turn", "wake", "workspace")


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


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_refuses_an_unknown_part_at_once(name, process_ring):
    words = [sys.executable, "-m", f"tests.bench.{name}_bench", "--parts", "nothing"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no part 'nothing'; the parts are " in done.stderr
