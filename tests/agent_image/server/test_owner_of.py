import pytest

from fleetwright_agent.server.admin.access import owner_of


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        pytest.param("client:ci", "client:ci", id="a client"),
        pytest.param("agent:team/lead", "agent:team/lead", id="an agent"),
        pytest.param("user:ada@example.com", "user:ada@example.com", id="a person"),
        pytest.param("user:Ada Lovelace", "user:Ada%20Lovelace", id="the plain name of a person"),
        pytest.param("user:Ada%20Lovelace", "user:Ada%20Lovelace", id="the stored name of a person"),
        pytest.param("user:ada via agent:team/lead", "user:ada via agent:team/lead", id="an agent for a person"),
        pytest.param("ada", None, id="no kind of owner"),
        pytest.param("user:\n", None, id="a line end"),
    ],
)
def test_owner_of_returns_the_stored_key(text, owner):
    assert owner_of(text) == owner
