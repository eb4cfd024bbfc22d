"""The log level from a mounted file: the agent applies it without a restart, and resets it when the file disappears."""

import logging

import pytest

from fleetwright_agent.telemetry.logs import LogLevel


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
async def test_log_level_follows_its_file_and_resets_without_it(tmp_path, logger, content, level):
    watched = LogLevel(tmp_path / "log-level", logger=logger)
    await watched.look()
    assert logger.level == logging.INFO
    (tmp_path / "log-level").write_text(content)
    await watched.look()
    assert logger.level == level
    (tmp_path / "log-level").unlink()
    await watched.look()
    assert logger.level == logging.INFO


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        pytest.param(None, 0, id="no file"),
        pytest.param("info", 0, id="a level"),
        pytest.param("loud", 1, id="no level"),
    ],
)
async def test_log_level_logs_an_invalid_value_once(tmp_path, logger, caplog, content, lines):
    watched = LogLevel(tmp_path / "log-level", logger=logger)
    if content is not None:
        (tmp_path / "log-level").write_text(content)
    for _ in range(3):
        await watched.look()
    told = [record.getMessage() for record in caplog.records if "not applied" in record.getMessage()]
    assert len(told) == lines
    assert all("debug, info, warning, error" in each for each in told)


async def test_log_level_applies_to_a_running_agent(open_door, mounted):
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
