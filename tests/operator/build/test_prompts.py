"""The prompts that an agent sends to itself, in its configuration: a table."""

import pytest

from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.build.config.prompts import prompts_config

SPECS = [
    pytest.param({}, {}, id="none"),
    pytest.param({"initialPrompt": "Begin."}, {"initialPrompt": "Begin."}, id="a first prompt"),
    pytest.param(
        {"idlePrompt": {"text": "Look."}},
        {"idlePrompt": {"text": "Look.", "everySeconds": 600}},
        id="an idle prompt at the default interval",
    ),
    pytest.param(
        {"initialPrompt": "Begin.", "idlePrompt": {"text": "Look.", "every": "2h"}},
        {"initialPrompt": "Begin.", "idlePrompt": {"text": "Look.", "everySeconds": 7200}},
        id="both",
    ),
]


@pytest.mark.parametrize(("spec", "wanted"), SPECS)
def test_prompts_config_has_only_the_fields_that_are_set(spec, wanted):
    view = parse_agent({"metadata": {"name": "poet", "namespace": "shop"}, "spec": {"instructions": "Help.", **spec}})
    assert prompts_config(view.spec) == wanted
