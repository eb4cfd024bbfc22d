"""The circuit breaker of an MCP server: it opens after failures, and then lets one trial call through."""

import pytest

from fleetwright_agent.tools.mcp.circuit_breaker import CircuitBreaker

STORIES = [
    pytest.param("xx", [0, 0, 0], [], id="two failures leave it closed"),
    pytest.param("xxx", [0, 0, 0, 15], [True], id="the third in a row opens it"),
    pytest.param("xx.xx", [0, 0, 0, 0, 0, 0], [], id="an answer in between begins the count anew"),
    pytest.param("xxx+.", [0, 0, 0, 15, 0, 0], [True, False], id="after its rest one answer closes it"),
    pytest.param("xxx+x", [0, 0, 0, 15, 0, 15], [True], id="after its rest one more failure leaves it open"),
]


@pytest.mark.parametrize(("story", "rests", "heard"), STORIES)
def test_circuit_breaker_opens_and_closes(story, rests, heard):
    """Apply a script: `x` is a failure, `.` is an answer, and `+` is fifteen seconds."""
    now, told, seen = [100.0], [], []
    breaker = CircuitBreaker(clock=lambda: now[0], on_change=told.append)
    for what in story:
        seen.append(breaker.rest())
        match what:
            case "x":
                breaker.failed()
            case ".":
                breaker.succeeded()
            case "+":
                now[0] += 15
    seen.append(breaker.rest())
    assert seen == rests
    assert told == heard


def test_circuit_breaker_half_open_admits_one_call():
    now = [0.0]
    breaker = CircuitBreaker(clock=lambda: now[0])
    for _ in range(3):
        breaker.failed()
    now[0] = 16.0
    assert [breaker.rest() for _ in range(3)] == [0.0, 15.0, 15.0]
