"""The input modes on a card: those of the executor, or those of the model."""

import pytest

from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.build.card import input_modes

PICTURES = ["image/gif", "image/jpeg", "image/png", "image/webp"]


@pytest.mark.parametrize(
    ("spec", "modes"),
    [
        pytest.param({"model": {"name": "m"}}, ["text/plain"], id="a model that says nothing of it takes text"),
        pytest.param({"model": {"name": "m", "vision": True}}, ["text/plain", *PICTURES], id="one that sees, pictures"),
        pytest.param(
            {"model": {"name": "m", "fallbacks": [{"name": "f", "vision": True}]}},
            ["text/plain"],
            id="that a fallback sees promises nothing",
        ),
        pytest.param(
            {"model": {"name": "m", "vision": True}, "executor": {"name": "a:B"}},
            ["text/plain"],
            id="an executor of one's own takes what it says",
        ),
        pytest.param(
            {"model": {"name": "m"}, "executor": {"name": "a:B", "inputModes": ["audio/wav"]}},
            ["audio/wav"],
            id="and nothing else",
        ),
    ],
)
def test_input_modes_follow_model_and_spec(spec, modes):
    assert input_modes(parse_agent({"metadata": {"name": "a", "namespace": "n"}, "spec": spec}).spec) == modes
