"""The log level that a mounted file says: taken over without a restart, and given back when the file goes."""

import logging

import pytest

from fleetwright_agent.logs import LogLevel


@pytest.fixture
def logger():
    made = logging.getLogger("test-of-the-log-level")
    made.setLevel(logging.INFO)
    return made


@pytest.mark.parametrize(
    ("content", "level"),
    [
        pytest.param("debug", logging.DEBUG, id="less"),
        pytest.param("error\n", logging.ERROR, id="more"),
        pytest.param("info", logging.INFO, id="the same"),
        pytest.param("loud", logging.INFO, id="no level"),
        pytest.param("", logging.INFO, id="nothing"),
    ],
)
async def test_a_level_counts_from_the_next_look_on(tmp_path, logger, content, level):
    watched = LogLevel(tmp_path / "log-level", logger=logger)
    await watched.look()
    assert logger.level == logging.INFO
    (tmp_path / "log-level").write_text(content)
    await watched.look()
    assert logger.level == level
    (tmp_path / "log-level").unlink()
    await watched.look()
    assert logger.level == logging.INFO


async def test_a_running_agent_takes_the_level_over(open_door, mounted):
    ours = logging.getLogger("fleetwright_agent")
    before = ours.level
    mounted.layout.log_level_file.parent.mkdir(parents=True, exist_ok=True)
    mounted.layout.log_level_file.write_text("debug")
    try:
        door = await open_door(retry_seconds=0.01)
        await door.say("hello")
        assert ours.level == logging.DEBUG
    finally:
        ours.setLevel(before)
