"""The counters of an agent continue in its next process, and no value is exposed before it is on disk."""

import json
import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from fleetwright_agent.telemetry.counter_file import CounterFile
from fleetwright_agent.telemetry.metrics import Metrics

FILE = "counters.json"


def process(folder: Path) -> tuple[Metrics, CounterFile]:
    metrics = Metrics(CollectorRegistry())
    return metrics, CounterFile(folder, metrics)


def exposed(counters: CounterFile) -> dict[str, float]:
    """Return what a scraper sees of the counters, without the values that are zero."""
    lines = [line for line in generate_latest(counters.snapshot()).decode().splitlines() if "_total" in line]
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("fleetwright_"): float(value) for name, value in pairs if float(value)}


def stored(folder: Path) -> dict[str, float]:
    found = json.loads((folder / FILE).read_bytes())
    return {name: value for name, _, value in found["counters"]}


def test_counters_continue_in_the_next_process(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    metrics.llm_calls.labels("m", "ok").inc(3)
    metrics.compaction_cost_usd.inc(0.25)
    metrics.observe_task("failed", 1)
    counters.save()
    metrics, counters = process(tmp_path)
    counters.resume()
    counters.resume()
    metrics.llm_calls.labels("m", "ok").inc()
    metrics.observe_task("failed", 1)
    assert exposed(counters) == {
        'llm_calls_total{model="m",outcome="ok"}': 4,
        "compaction_cost_usd_total": 0.25,
        'tasks_ended_total{outcome="failed"}': 2,
    }


def test_exposed_values_are_on_disk(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    for value in (1, 2):
        metrics.empty_replies.inc()
        assert exposed(counters) == {"llm_empty_replies_total": value}
        assert stored(tmp_path) == {"fleetwright_llm_empty_replies": value}


def test_unchanged_counters_are_not_written_again(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    metrics.empty_replies.inc()
    metrics.tasks.labels("working").set(1)
    exposed(counters)
    (tmp_path / FILE).unlink()
    metrics.tasks.labels("working").set(2)
    exposed(counters)
    counters.save()
    assert not (tmp_path / FILE).exists()


def test_counters_are_hidden_until_the_stored_values_are_known(tmp_path: Path) -> None:
    """A counter at zero would look like a restart, and its next value would be counted twice."""
    metrics, counters = process(tmp_path)
    metrics.empty_replies.inc()
    metrics.memory_full.set(1)
    text = generate_latest(counters.snapshot()).decode()
    assert "fleetwright_memory_full 1.0" in text
    assert "_total" not in text
    counters.save()
    assert not (tmp_path / FILE).exists(), "the values of another process are not overwritten"
    counters.resume()
    assert exposed(counters) == {"llm_empty_replies_total": 1}


def test_file_names_no_caller(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    metrics.caller_cost_usd.labels("user:ada").inc()
    metrics.caller_cost_usd.labels("(others)").inc(2)
    assert exposed(counters)['caller_cost_usd_total{caller="user:ada"}'] == 1
    assert stored(tmp_path) == {"fleetwright_caller_cost_usd": 2}


OTHER = [
    ["fleetwright_llm_calls", [["model", "m"]], 5],
    ["fleetwright_llm_calls", [["model", "m"], ["outcome", "ok"], ["zone", "z"]], 5],
    ["fleetwright_llm_calls", [], 5],
    ["fleetwright_of_another_version", [], 5],
    ["fleetwright_memory_full", [], 5],
    ["fleetwright_llm_empty_replies", [], 2],
]


def test_series_of_another_version_are_left_out(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps({"version": 1, "counters": OTHER}))
    _, counters = process(tmp_path)
    counters.resume()
    assert exposed(counters) == {"llm_empty_replies_total": 2}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty file"),
        pytest.param("[]", id="a list"),
        pytest.param('{"counters": [["a", 1]]}', id="a short line"),
        pytest.param('{"counters": [["a", [], "b"]]}', id="a value that is no number"),
        pytest.param('{"counters": [["a", [], NaN]]}', id="a value that is not a number in floating point"),
        pytest.param('{"counters": [["a", [["b"]], 1]]}', id="a label without a value"),
    ],
)
def test_damaged_file_is_reported_and_replaced(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_text(text)
    metrics, counters = process(tmp_path)
    with caplog.at_level(logging.ERROR):
        counters.resume()
    assert "the stored counters cannot be read" in caplog.text
    metrics.empty_replies.inc()
    assert exposed(counters) == {"llm_empty_replies_total": 1}
    assert stored(tmp_path) == {"fleetwright_llm_empty_replies": 1}


def test_counters_that_cannot_be_stored_are_not_exposed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a restart, a value that is only in memory would look like a counter that began at zero."""
    folder = tmp_path / "memory"
    metrics, counters = process(folder)
    counters.resume()
    folder.write_text("a file instead of the folder")
    metrics.empty_replies.inc()
    with caplog.at_level(logging.ERROR):
        assert exposed(counters) == {}
    assert "the counters cannot be stored" in caplog.text
    folder.unlink()
    assert exposed(counters) == {"llm_empty_replies_total": 1}


def test_hidden_counters_are_stored_and_not_exposed(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    counters.hide()
    metrics.empty_replies.inc()
    assert exposed(counters) == {}
    counters.save()
    assert stored(tmp_path) == {"fleetwright_llm_empty_replies": 1}


def test_raise_to_keeps_larger_values(tmp_path: Path) -> None:
    metrics, counters = process(tmp_path)
    counters.resume()
    metrics.llm_tokens.labels("m", "input").inc(7)
    metrics.llm_tokens.labels("m", "output").inc(7)
    series = [("fleetwright_llm_tokens", (("direction", each), ("model", "m"))) for each in ("input", "output")]
    metrics.raise_to({series[0]: 5, series[1]: 9})
    labels = 'llm_tokens_total{{direction="{}",model="m"}}'
    assert exposed(counters) == {labels.format("input"): 7, labels.format("output"): 9}
