"""Measures for Fleetwright only: the accounts agree, and a killed process leaves the old view or the new one."""

import asyncio
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

from langchain_core.messages import ToolMessage
from tests.bench.compaction import fixtures, properties, summarisers
from tests.bench.compaction.measures import SEED, Figures
from tests.bench.compaction.ours import ours
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.scripted import Script

from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.config.model import Model
from fleetwright_agent.protocol.frames import Purpose
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.conversations.views import SqliteViewStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.turn.compaction.compactor import Compactor
from fleetwright_agent.turn.compaction.economics import USUAL
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.compaction.pruning import best_batch
from fleetwright_agent.turn.compaction.view import CompactionState, View
from fleetwright_agent.turn.views import Views

PRICE = {"inputPerMillion": "2", "outputPerMillion": "8", "cachedInputPerMillion": "0.5"}


async def random_histories(*, quick: bool = False, seed: int = SEED) -> Figures:
    """Count violations in histories with torn turns, open calls and todos, compacted up to four times each."""
    histories = 200 if quick else 10_000
    return {"histories": histories, "violations": (await properties.count(histories, first=seed * histories)).total()}


async def books(*, quick: bool = False, seed: int = SEED) -> Figures:
    """Return the largest difference among counters, the task's usage, the usage store and the provider's count."""
    script = Script(fixtures.work(seed, turns=10 if quick else 25), Provider(), summarisers.brief)
    async with ours(script, {"trigger": {"tokens": 20_000}}, price=PRICE) as system:
        await system.play()
        usages, provider = system.spent(), script.provider
        summaries = [usage for usage in usages if usage.purpose is Purpose.SUMMARY]
        cost = sum((usage.cost_usd or Decimal(0) for usage in usages), Decimal(0))
        of_summaries = sum((usage.cost_usd or Decimal(0) for usage in summaries), Decimal(0))
        (written,) = (await system.ledger.of_this_life()).values()
        differences = [
            float(written.usd - cost),
            written.input_tokens - provider.fresh - provider.cached,
            sum(usage.input_tokens for usage in usages) - provider.fresh - provider.cached,
            sum(usage.output_tokens for usage in usages) - provider.output,
            len(summaries) - provider.summaries,
            system.count("llm_tokens_total", model="scripted", direction="input") - provider.fresh - provider.cached,
            system.count("compaction_llm_tokens_total", direction="output", cached="false")
            - sum(usage.output_tokens for usage in summaries),
            round(system.count("llm_cost_usd_total", model="scripted") - float(cost), 9),
            round(system.count("compaction_cost_usd_total") - float(of_summaries), 9),
        ]
        return {"summaries": len(summaries), "largest difference": max(abs(d) for d in differences)}


async def kills(*, quick: bool = False, seed: int = SEED) -> Figures:
    """Count mixed or lost views after processes that store views without pause are killed at random moments."""
    rounds, mixed = 3 if quick else 25, 0
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="compaction-") as folder:
        path = Path(folder) / "conversations.db"
        for _ in range(rounds):
            command = (sys.executable, "-m", "tests.bench.compaction.own", str(path))
            writer = await asyncio.create_subprocess_exec(*command)
            await asyncio.to_thread(_began, path)
            await asyncio.sleep(chance.uniform(0.0, 0.15))
            writer.kill()
            await writer.wait()
            database = Database(path, SCHEMA)
            standing = await Views(SqliteViewStore(database)).get("t")
            await database.aclose()
            mixed += standing.view is None or not _whole(standing.view, path)
    return {"kills": rounds, "mixed": mixed}


def _began(path: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists():
            try:
                with sqlite3.connect(path) as db:
                    if db.execute("SELECT count(*) FROM views").fetchone()[0]:
                        return
            except sqlite3.Error:
                pass
        time.sleep(0.01)
    raise TimeoutError("the writer of views does not start")


def _whole(view: View, path: Path) -> bool:
    """Check that every part of a view, and its archive, name the same number."""
    with sqlite3.connect(path) as db:
        archived = {row[0] for row in db.execute("SELECT message FROM archived WHERE thread='t'")}
    return len({view.cut, view.newest, view.summary, view.pinned, view.digest}) == 1 and view.cut in archived


async def _write(path: Path) -> None:
    views = Views(SqliteViewStore(Database(path, SCHEMA)))
    number = 0
    while True:
        number += 1
        word = f"view-{number}"
        view = View(cut=word, newest=word, summary=word, pinned=word, digest=word)
        await views.put("t", CompactionState(view), at=number, archives=True)


async def large(*, quick: bool = False, seed: int = SEED) -> Figures:
    """Measure the processor milliseconds to prune and assemble 800 messages with long results that all must be cut."""
    conversation = fixtures.work(seed, turns=60, calls=8)
    script = Script(conversation, Provider(), summarisers.brief)
    async with ours(script, {"prune": {"overChars": 100_000_000}}) as system:
        while len(system.stored) < 800:
            await system.play(1)
        stored = list(system.stored)
    maker = Compactor(Compaction(), _MODEL, lambda _: None)
    long = [m.id or "" for m in stored[:-20] if isinstance(m, ToolMessage) and len(m.text) > 4000]

    def assemble() -> None:
        prompt = Prompt(stored, None)
        before = len(prompt.head) + len(prompt.leaving(len(stored) - 20)[0])
        policy = Compaction().prune
        batch = best_batch(prompt.messages, policy, USUAL, before=before, pruned={}, thrifty=False)
        assert batch is not None
        assert len(batch.ids) == len(long)
        assert len(prompt.under(maker.pruned(prompt, batch).view).messages) == len(stored)

    return {"ms": _minimum_ms(assemble), "messages": len(stored), "cut": len(long)}


def _minimum_ms(work: Callable[[], None]) -> float:
    """Return the minimum processor time of several repetitions in milliseconds. Baselines may run at the same time."""
    measured = []
    for _ in range(30):
        began = time.process_time()
        work()
        measured.append((time.process_time() - began) * 1000)
    return min(measured)


_MODEL = Model.model_validate(
    {"name": "m", "baseUrl": "u", "contextWindow": 1_000_000, "maxOutputTokens": 1000, "timeoutSeconds": 1}
)

ALL = ("random_histories", "books", "kills", "large")


async def run(names: Sequence[str] = ALL, *, quick: bool = False, seed: int = SEED) -> dict[str, Figures]:
    return {name: await globals()[name](quick=quick, seed=seed) for name in names}


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1])))
