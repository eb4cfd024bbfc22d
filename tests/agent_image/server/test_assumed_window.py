"""An agent with models of unknown window: at its start it logs each window that is a guess, with its field."""

import pytest

SMALL = {"name": "small", "contextWindow": 16_384}
MODELS = {
    "model": lambda guess: {"model": {**guess, "contextWindow": 16_384}},
    "model.auxiliary": lambda guess: {"model": {"auxiliary": {**SMALL, **guess}}},
    "budgets[Day].downgrade.model": lambda guess: {
        "budgets": [{"period": "Day", "tokens": 9, "downgrade": {"model": {**SMALL, **guess}}}]
    },
    "subAgents[clerk].model": lambda guess: {
        "subAgents": [{"name": "clerk", "description": "d", "instructions": "i", "model": {**SMALL, **guess}}]
    },
}


@pytest.mark.parametrize("field", list(MODELS))
@pytest.mark.parametrize("guess", [{"contextWindowAssumed": True}, {}], ids=["a guess", "declared"])
async def test_assumed_context_window_is_logged_at_start(open_door, mounted, documents, caplog, field, guess):
    document, changes = documents(), MODELS[field](guess)
    model = {**document["model"], **changes.pop("model", {})}
    mounted.write(mounted.layout.config_file, {**document, **changes, "model": model})
    await open_door()
    told = [record for record in caplog.records if "context window of the model is not known" in record.getMessage()]
    assert [record.getMessage().endswith(f"; set {field}.contextWindow") for record in told] == [True] * len(guess)
    assert [record.__dict__["assumed"] for record in told] == [16_384] * len(guess)
