"""Secrets from callers and tools: only the databases of tasks and conversations may contain them."""

import io
import logging
from typing import Any

from tests.support.agent.collector import Collector
from tests.support.agent.waiter import LEARNING, order_task

from fleetwright_agent.audit.factory import redactor
from fleetwright_agent.telemetry.logs import JsonLines

SECRET = "sk-abcdefghijklmnop0123456789"
TRUE = {"tasks", "conversations"}
"""Databases that keep the original text: the model needs its history, and the caller needs the answer."""
EVERYTHING = {
    **LEARNING,
    "memory": {"skills": {"enabled": True}, "knowledge": {"enabled": True, "ingest": ["house__book_table"]}},
    "extensions": {"toolCalls": True},
}


def holding(mounted: Any) -> set[str]:
    """Return the top-level files and folders that contain the secret, without the suffixes that SQLite adds."""
    root = mounted.layout.memory
    found = {path.relative_to(root).parts[0] for path in root.rglob("*") if _holds(path)}
    return {name.partition(".")[0] for name in found}


def _holds(path: Any) -> bool:
    return path.is_file() and SECRET.encode() in path.read_bytes()


async def test_redaction_keeps_secrets_out_of_secondary_records(agent, house, mounted):
    stream, collector = io.StringIO(), Collector()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(redactor(mounted.layout)))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("DEBUG")
    try:
        async with collector.serving() as url, agent(**EVERYTHING, telemetry={"endpoint": url}) as guest:
            task = await guest.say(f"Book table for 4 with the key {SECRET}", contextId="c1")
            await guest.say(order_task(f"Book table for 5 with the key {SECRET}"), contextId="c2")
            await guest.say(f'Remember the fact "The key is {SECRET}"', contextId="c3")
            await guest.say(f"Hello {SECRET} [[fail:401]]", contextId="c4")
            assert SECRET in str(await guest.get(task)), "the history keeps the original text"
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    kept = {path.name for path in mounted.layout.memory.iterdir()}
    assert {"skills", "knowledge", "audit"} <= kept, "every store has content"
    assert holding(mounted) == TRUE
    assert "task rests" in stream.getvalue()
    assert SECRET not in stream.getvalue()
    assert collector.spans
    assert all(SECRET not in str(span) for span in collector.spans)
    assert house.ledger == ["table for 4", "table for 5"]
