"""An agent with an unknown model: it logs at its start that the context window is a guess."""

import pytest


@pytest.mark.parametrize(("assumed", "lines"), [(True, 1), (False, 0)], ids=["a guess", "declared"])
async def test_assumed_context_window_is_logged_at_start(open_door, mounted, documents, caplog, assumed, lines):
    document = documents()
    model = {**document["model"], "contextWindow": 16_384, "contextWindowAssumed": assumed}
    mounted.write(mounted.layout.config_file, {**document, "model": model})
    await open_door()
    told = [record for record in caplog.records if "context window of the model is not known" in record.getMessage()]
    assert [record.__dict__["assumed"] for record in told] == [16_384] * lines
