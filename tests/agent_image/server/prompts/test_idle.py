"""The due time of an idle prompt: a table."""

import pytest

from fleetwright_agent.server.prompts.idle import IdleState, is_idle_prompt_due

STATES = [
    pytest.param(0, 600.0, False, True, id="idle for exactly long enough"),
    pytest.param(0, 599.9, False, False, id="a task ended a little later"),
    pytest.param(1, 9000.0, False, False, id="a task runs or waits for its turn"),
    pytest.param(0, 9000.0, True, False, id="a budget is exceeded"),
]


@pytest.mark.parametrize(("tasks", "quiet_seconds", "is_over_budget", "due"), STATES)
def test_idle_prompt_is_due(tasks: int, quiet_seconds: float, is_over_budget: bool, due: bool) -> None:
    state = IdleState(tasks=tasks, quiet_seconds=quiet_seconds, is_over_budget=is_over_budget)
    assert is_idle_prompt_due(state, every_seconds=600) is due
