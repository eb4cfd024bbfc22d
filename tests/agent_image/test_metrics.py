"""The series of an agent before the first event. `increase` misses the first event of a missing series."""

import ast
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import fleetwright_agent
from fleetwright_a2a.task_events import TERMINAL, state_word
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.providers.failures import REFUSED

SOURCE = Path(fleetwright_agent.__file__).parent


def values(registry, name, *labels):
    """Return the values of these labels of a metric, whose samples must all be zero."""
    samples = [sample for family in registry.collect() for sample in family.samples if sample.name == name]
    assert all(sample.value == 0 for sample in samples)
    found = {tuple(sample.labels[label] for label in labels) for sample in samples}
    return {each[0] for each in found} if len(labels) == 1 else found


def reasons(files):
    """Yield the failure reasons in the source: first arguments of failures, and the results in `validate.py`."""
    for file in files:
        for node in ast.walk(ast.parse((SOURCE / file).read_text())):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"ModelFailure", "SummaryFailed"}
            returned = isinstance(node, ast.Return) and file.endswith("validate.py")
            said = node.args[0] if made else node.value if returned else None
            for part in ast.walk(said) if said else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


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


STEPS = [f"turn/pipeline/model/compaction/{name}.py" for name in ("steps", "summary_request")]
MAKING = [f"turn/compaction/{name}.py" for name in ("compactor", "summariser", "validate")]


@pytest.mark.parametrize(
    ("counter", "label", "files", "besides"),
    [
        pytest.param("llm_calls", "outcome", ["turn/providers/failures.py"], {"ok", REFUSED}, id="calls of the model"),
        pytest.param(
            "model_fallbacks",
            "reason",
            ["turn/providers/failures.py"],
            {"model_context_overflow"},
            id="fallbacks: from a prompt that is too long there is none",
        ),
        pytest.param(
            "compaction_failures",
            "reason",
            STEPS + MAKING,
            set(),
            id="compactions that change nothing",
        ),
    ],
)
def test_metrics_declare_every_reason_at_start(counter, label, files, besides):
    registry = CollectorRegistry()
    Metrics(registry).declare(["m", "n"], lines=[("m", "n")])
    found = set(reasons(files))
    assert len(found) > 5
    assert values(registry, f"fleetwright_{counter}_total", label) ^ found == besides
