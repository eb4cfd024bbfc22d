import pytest

from fleetwright_gateway.proxy.idle_timeout import idle_seconds


@pytest.mark.parametrize(
    ("asked", "own", "seconds"),
    [
        pytest.param("", None, 300, id="the setting of the gateway"),
        pytest.param("", "45s", 45, id="the timeout of the agent"),
        pytest.param("", "2h", 7200, id="a timeout in hours"),
        pytest.param("20", "45s", 20, id="the timeout of the caller"),
        pytest.param("0", "45s", 0, id="a caller that sets no limit"),
        pytest.param("", "soon", 300, id="a malformed timeout of the agent"),
    ],
)
def test_idle_seconds_prefers_the_caller_then_the_agent(asked, own, seconds):
    assert idle_seconds(asked, own, 300) == seconds
