"""Session memory: each turn commits its row before its answer, also when several turns end together."""

import asyncio
import sqlite3

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import TurnDone, TurnRequest
from fleetwright_agent.storage.sqlite.conversations.schema import FILE

_AT_ONCE = 6
_TURNS_EACH = 20


def _stored(folder) -> set[str]:
    """Read the committed session rows through a separate connection, as another process would."""
    with sqlite3.connect(f"file:{Layout(root=folder).memory / FILE}?mode=ro", uri=True) as database:
        found = {context for (context,) in database.execute("SELECT context FROM sessions")}
    database.close()
    return found


async def test_session_row_is_committed_before_its_answer(config, talking, tmp_path):
    missing: list[str] = []

    async def converse(talk, place: int) -> None:
        for turn in range(_TURNS_EACH):
            context = f"c{place}-{turn}"
            async for frame in talk.turn.run(TurnRequest(f"client:{place}", context, context, "Hello")):
                last = frame
            if not isinstance(last, TurnDone) or context not in _stored(tmp_path):
                missing.append(context)

    async with talking(config()) as talk:
        await asyncio.gather(*(converse(talk, place) for place in range(_AT_ONCE)))
    assert missing == []


async def test_session_write_failure_does_not_fail_the_answer(config, talking, tmp_path, caplog):
    refused = "CREATE TRIGGER refuse BEFORE INSERT ON sessions BEGIN SELECT RAISE(ABORT, 'no sessions today'); END"
    async with talking(config()) as talk:
        await talk.say("Hello", context="c1")
        with sqlite3.connect(Layout(root=tmp_path).memory / FILE) as other:
            other.execute(refused)
        other.close()
        said = await talk.say("Good morning", context="c2")
        assert talk.count("sessions_lost_total") == 1
    assert said.failure is None
    assert said.answer
    assert _stored(tmp_path) == {"c1"}
    assert "no sessions today" in caplog.text
