"""The series of an agent before the first event. `increase` misses the first event of a missing series."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fleetwright_a2a.task_events import TERMINAL, state_word
from fleetwright_agent.telemetry.failure_reasons import (
    COMPACTION_FAILURE_REASONS,
    FALLBACK_REASONS,
    MODEL_FAILURE_REASONS,
)
from fleetwright_agent.telemetry.metrics import Metrics

GUIDES = Path(__file__).parents[2] / "docs/guides"


def values(registry, name, *labels):
    """Return the values of these labels of a metric, whose samples must all be zero."""
    samples = [sample for family in registry.collect() for sample in family.samples if sample.name == name]
    assert all(sample.value == 0 for sample in samples)
    found = {tuple(sample.labels[label] for label in labels) for sample in samples}
    return {each[0] for each in found} if len(labels) == 1 else found


async def test_metrics_start_with_the_series_of_the_configuration(mounted, documents, open_door):
    endpoint = documents()["model"]
    small = {"name": "small", "contextWindow": 1000}
    packer = {"name": "packer", "description": "Packs.", "instructions": "Pack.", "model": small}
    changes = {
        "model": {**endpoint, "fallbacks": [{**endpoint, "name": "n"}]},
        "subAgents": [packer],
        "budgets": [{"period": "Hour", "tokens": 9}, {"period": "Day", "usd": "1"}],
    }
    mounted.write(mounted.layout.config_file, documents(**changes))
    registry = CollectorRegistry()
    await open_door(metrics=Metrics(registry))
    assert values(registry, "fleetwright_budget_rejections_total", "period") == {"Hour", "Day"}
    assert values(registry, "fleetwright_llm_unpriced_calls_total", "model") == {"m", "n", "small"}
    assert values(registry, "fleetwright_task_seconds_count", "outcome") == {"completed", "failed"}
    ended = {"completed", "failed", "canceled", "rejected"}
    assert values(registry, "fleetwright_tasks_ended_total", "outcome") == ended
    lines = {("m", "n"), ("n", "m"), ("small", "n"), ("n", "small")}
    assert values(registry, "fleetwright_model_fallbacks_total", "from", "to") == lines


@pytest.mark.parametrize(("outcome", "ended"), [("failed", 1), ("rejected", 1), ("input-required", None)])
def test_observed_tasks_are_counted_if_they_have_ended(outcome, ended):
    registry = CollectorRegistry()
    Metrics(registry).observe_task(outcome, 2)
    assert registry.get_sample_value("fleetwright_tasks_ended_total", {"outcome": outcome}) == ended
    assert registry.get_sample_value("fleetwright_task_seconds_sum", {"outcome": outcome}) == 2


def test_ended_outcomes_are_the_terminal_states_of_a2a():
    registry = CollectorRegistry()
    Metrics(registry).declare([])
    assert values(registry, "fleetwright_tasks_ended_total", "outcome") == {state_word(each) for each in TERMINAL}


@pytest.mark.parametrize(
    ("counter", "label", "wanted"),
    [
        pytest.param("llm_calls", "outcome", {"ok", *MODEL_FAILURE_REASONS}, id="calls of the model"),
        pytest.param("model_fallbacks", "reason", set(FALLBACK_REASONS), id="fallbacks"),
        pytest.param("compaction_failures", "reason", set(COMPACTION_FAILURE_REASONS), id="compactions"),
    ],
)
def test_metrics_declare_every_reason_at_start(counter, label, wanted):
    registry = CollectorRegistry()
    Metrics(registry).declare(["m", "n"], lines=[("m", "n")])
    assert values(registry, f"fleetwright_{counter}_total", label) == wanted


def test_guide_explains_every_reason_of_a_failed_model_call():
    table = (GUIDES / "watching-it.md").read_text().partition("## Failed tasks")[2].partition("\n## ")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    explained = {reason for first in firsts for reason in re.findall(r"`(\w+)`", first)}
    assert set(MODEL_FAILURE_REASONS) - explained == set()


def test_guide_lists_the_reasons_of_failed_compactions():
    text = (GUIDES / "compaction.md").read_text().partition("| `fleetwright_compaction_failures_total` |")[2]
    listed = set(re.findall(r"`(\w+)`", text.partition("\n")[0])) - {"reason"}
    assert listed == set(COMPACTION_FAILURE_REASONS)
