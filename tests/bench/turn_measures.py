"""The measures of `make bench-turn`. Each takes a folder for its files and returns rows."""

import asyncio
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from e2e.cluster.ports import free_port
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from tests.bench.compaction import fixtures, summarisers
from tests.bench.compaction.measures import SEED
from tests.bench.compaction.ours import ours as compacting
from tests.bench.compaction.provider import Provider
from tests.bench.compaction.scripted import Script
from tests.bench.echo import served
from tests.bench.echo.environment import python_of
from tests.bench.echo.served import TOKEN, Served
from tests.bench.echo.wire import Wire, message
from tests.bench.parts import Part
from tests.bench.table import Row
from tests.bench.turn import loops
from tests.bench.turn.model import PIECES

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.conversations.sessions import SqliteSessionStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.facts import SCHEMA, SqliteFactStore
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCache
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.model.compaction.link import CompactionLink
from fleetwright_agent.turn.prompt import read_instructions, system_prompt

_NEAR = 10
"""Number of turns before the tenth, and before the last, over which a figure is taken."""


_OURS = "durable turn"
_FORGETFUL = "the same turn, kept in memory alone"
_BARE = "LangChain's bare loop, its caller keeps the history"


@dataclass(frozen=True)
class Took:
    wall: float
    cpu: float
    """Processor time of all threads, in seconds."""


async def durable(folder: Path, *, rounds: int = 3, turns: int = 200) -> list[Row]:
    """Measure turns with one tool, which are two calls of a model that takes no time, with each loop in turn.

    The cost of durability is the difference to the same turn without it. The bare loop shows the rest of the turn. The
    floors show what a saver costs without our code.
    """
    took: dict[str, list[list[Took]]] = {name: [] for name in (_OURS, _FORGETFUL, _BARE, *loops.FLOORS)}
    for _ in range(rounds):
        for measured in took.values():
            measured.append([])
        floors = {name: loops.Bare(saver=saver()) for name, saver in loops.FLOORS.items()}
        async with loops.ours(lasting=True) as ours, loops.ours(lasting=False) as forgetful:
            playing: dict[str, loops.Ours | loops.Bare] = {
                _OURS: ours,
                _FORGETFUL: forgetful,
                _BARE: loops.Bare(),
                **floors,
            }
            for _ in range(turns):
                for name, loop in playing.items():
                    took[name][-1].append(await _timed(loop))
    rows = [row for name, last in (("10", _NEAR), (str(turns), turns)) for row in _at(took, name, last)]
    growth = _median_ms(took[_OURS], turns) - _median_ms(took[_OURS], _NEAR)
    forgetful_growth = _median_ms(took[_FORGETFUL], turns) - _median_ms(took[_FORGETFUL], _NEAR)
    rows.append(Row(f"… what it grows by, 10 to {turns}", growth - forgetful_growth, "ms", 1.0, is_difference=True))
    return [*rows, Row("… floor: one commit on this disk", _commit_ms(), "ms", is_reference=True)]


def _at(took: dict[str, list[list[Took]]], turn: str, last: int) -> list[Row]:
    wall = {name: _median_ms(rounds, last) for name, rounds in took.items()}
    cpu = {name: _near(rounds, last).cpu * 1000 for name, rounds in took.items()}
    return [
        Row(f"{_OURS}, at turn {turn}, beside the one in memory", wall[_OURS], "ms", reference=wall[_FORGETFUL]),
        Row(f"… {_FORGETFUL}", wall[_FORGETFUL], "ms"),
        Row("… what durability adds", wall[_OURS] - wall[_FORGETFUL], "ms", 4.0, is_difference=True),
        Row("… of that, time of the processor", cpu[_OURS] - cpu[_FORGETFUL], "ms", is_difference=True),
        Row(f"… {_BARE}", wall[_BARE], "ms", is_reference=True),
        *(
            Row(f"… floor: {name} adds", wall[name] - wall[_BARE], "ms", is_reference=True, is_difference=True)
            for name in loops.FLOORS
        ),
    ]


async def _timed(loop: loops.Ours | loops.Bare) -> Took:
    began, worked = time.perf_counter(), time.process_time()
    await loop.say()
    return Took(time.perf_counter() - began, time.process_time() - worked)


def _median_ms(rounds: list[list[Took]], last: int) -> float:
    return _near(rounds, last).wall * 1000


def _near(rounds: list[list[Took]], last: int) -> Took:
    """Return the median of the turns before this one."""
    return _median_of([taken for took in rounds for taken in took[last - _NEAR : last]])


def _commit_ms() -> float:
    """Return the milliseconds to commit a kilobyte as durably as a conversation's writes."""
    with tempfile.TemporaryDirectory(prefix="fleetwright-bench-") as folder:
        db = sqlite3.connect(Path(folder) / "c.db", isolation_level=None)
        db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (x BLOB)")
        took = []
        for _ in range(100):
            began = time.perf_counter()
            db.execute("INSERT INTO t VALUES (?)", (bytes(1024),))
            took.append(time.perf_counter() - began)
        db.close()
    return statistics.median(took) * 1000


_WORDS_OF_FACT = 60


async def recall(folder: Path, *, facts: int = 100_000, questions: int = 500) -> list[Row]:
    """Measure questions of three to six words to facts of sixty words, with natural word frequencies."""
    chance = random.Random(7)
    words = [f"word{n}" for n in range(20_000)]
    weights = list(accumulate(1 / (n + 1) for n in range(len(words))))
    owner, source = "client:bench", Provenance("client:bench", "c", "t")
    knowledge = SqliteFactStore(folder / "knowledge", now=time.time)
    await knowledge.remember(owner, "the first", source, hot=False, most=10)
    (path,) = (folder / "knowledge").glob("*.db")
    await knowledge.aclose()
    texts = [" ".join(chance.choices(words, cum_weights=weights, k=_WORDS_OF_FACT)) for _ in range(facts)]
    filling = Database(path, SCHEMA)
    insert = "INSERT OR IGNORE INTO facts (text, hot, said_by, context, task, at) VALUES (?, 0, 'o', 'c', 't', 0)"
    await filling.run(lambda db: db.executemany(insert, ((text,) for text in texts)))
    await filling.aclose()
    took = []
    for _ in range(questions):
        question = " ".join(chance.choices(words, cum_weights=weights, k=chance.randint(3, 6)))
        began = time.perf_counter()
        await knowledge.recall(owner, question, most=10)
        took.append((time.perf_counter() - began) * 1000)
    await knowledge.aclose()
    return [
        Row(f"recall over {facts:,} facts, p50", statistics.median(took), "ms"),
        Row("… p99", statistics.quantiles(took, n=100)[98], "ms", 5.0),
    ]


async def first_token(folder: Path, *, warm: int = 20, times: int = 100) -> list[Row]:
    """Measure a stream of the whole agent and the stream of its model, interleaved."""
    async with _talking(folder) as (model, agent), Wire(agent.port, TOKEN) as wire:
        for _ in range(warm):
            await _heard(wire)
        mine, theirs, bare = [], [], []
        loop = loops.BareStream(model.port)
        await loop.heard()
        for _ in range(times):
            mine.append(await _heard(wire))
            theirs.append(await _raw(model.port))
            bare.append(await loop.heard())
    ours, raw, floor = (statistics.median(took) * 1000 for took in (mine, theirs, bare))
    return [
        Row("first token of a stream", ours, "ms"),
        Row("… of the model alone", raw, "ms", is_reference=True),
        Row("… what the agent adds, p50", ours - raw, "ms", 10.0, is_difference=True),
        Row("… floor: LangChain's bare loop and client add", floor - raw, "ms", is_reference=True, is_difference=True),
    ]


@dataclass
class _talking:  # noqa: N801 - read as a context manager
    """Run an agent as it is shipped, with a model server."""

    folder: Path
    pieces: int = PIECES
    """The number of pieces in each answer of the model."""

    async def __aenter__(self) -> tuple[Served, Served]:
        self._stack = AsyncExitStack()
        port = free_port()
        words = [sys.executable, "-m", "tests.bench.turn.model", str(port), str(self.pieces)]
        model = await self._stack.enter_async_context(Served(words, port, port))
        agent = served.shipped(python_of("agent"), self.folder, model=f"http://127.0.0.1:{port}/v1")
        return model, await self._stack.enter_async_context(agent)

    async def __aexit__(self, *about: object) -> None:
        await self._stack.aclose()


async def _heard(wire: Wire) -> float:
    """Return the seconds to the first piece of the answer, and read the rest."""
    began, heard = time.perf_counter(), 0.0
    async for event in wire.stream(message("Tell me.", method="SendStreamingMessage")):
        if not heard and b"word0" in event:
            heard = time.perf_counter() - began
    if not heard:
        raise RuntimeError("no piece of an answer came")
    return heard


async def _raw(port: int) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Tell me."}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    began = time.perf_counter()
    writer.write(head % len(body) + b"Connection: close\r\n\r\n" + body)
    await reader.readuntil(b"word0")
    heard = time.perf_counter() - began
    await reader.read()
    writer.close()
    return heard


async def prompt(folder: Path, *, times: int = 50) -> list[Row]:
    """Measure the assembly of everything before the conversation, for one model call."""
    skills = [
        {"name": f"skill-{n}", "description": "How one part of the work is done. " * 4, "digest": "d"}
        for n in range(50)
    ]
    config, layout = loops.configured(skills=skills), Layout(root=folder)
    database = Database(folder / schema.FILE, schema.SCHEMA)
    sessions = Sessions(SqliteSessionStore(database), redact=Redactor().text)
    for number in range(10):
        await sessions.put("client:bench", f"c{number}", asked="What was asked. " * 20, answered="What was told. " * 40)
    tools = {tool.name: tool for tool in map(_tool, range(100))}
    stored = [HumanMessage("Go.")]
    took = []
    for _ in range(times):
        context = TurnContext(TurnRequest("client:bench", "c", "t", "Go."), lambda _: None, tools)
        began = time.perf_counter()
        system = system_prompt(config, read_instructions(config, layout), context.unreachable)
        prior = await sessions.prior("client:bench", "c")
        built = Prompt(stored, None, prior_sessions=prior, system=system, tools=context.declarations)
        if not (built.messages and built.tokens()):
            raise RuntimeError("the prompt is empty")
        took.append(time.perf_counter() - began)
    await database.aclose()
    return [Row("prompt of 50 skills, 100 tools and 10 sessions", statistics.median(took) * 1000, "ms", 2.0)]


def _tool(number: int) -> Tool:
    fields = {f"field_{n}": {"type": "string", "description": "What it is about."} for n in range(6)}
    schema = {"type": "object", "properties": fields}

    async def run(_: object) -> str:
        return ""

    return Tool(name=f"tool_{number}", description="Does one thing of many. " * 5, parameters=schema, run=run)


_SUMMARY_SECONDS = 0.25
"""Duration of a summary. A real provider needs some seconds."""


class _TimedScript(Script):
    """A script that records the seconds of its summaries, and the processor seconds of everything that it does."""

    summarising: float = 0.0
    worked: float = 0.0

    def answer(self, messages: Sequence[BaseMessage], tools: Sequence[Any]) -> AIMessage:
        began = time.thread_time()
        try:
            return super().answer(messages, tools)
        finally:
            self.worked += time.thread_time() - began

    def summary(self, messages: Sequence[BaseMessage], tools: Sequence[Any]) -> AIMessage:
        began, worked = time.perf_counter(), time.thread_time()
        try:
            return super().summary(messages, tools)
        finally:
            self.summarising += time.perf_counter() - began
            self.worked += time.thread_time() - worked


class _TimedLink:
    """A compaction link that records the duration of each model call, without the model's own part.

    A call for which the link made a summary is separate from the earlier calls, for which no compaction was due.
    """

    def __init__(self, link: CompactionLink, script: _TimedScript) -> None:
        self._link = link
        self._script = script
        self.idle: list[Took] = []
        self.due: list[Took] = []

    async def around_model(self, request: Any, call: Callable[[Any], Awaitable[Any]]) -> Any:
        script, answering = self._script, 0.0
        summaries, summarising, worked = script.provider.summaries, script.summarising, script.worked

        async def answer(request: Any) -> Any:
            nonlocal answering
            entered = time.perf_counter()
            try:
                return await call(request)
            finally:
                answering += time.perf_counter() - entered

        began, used = time.perf_counter(), time.process_time()
        reply = await self._link.around_model(request, answer)
        made = script.provider.summaries - summaries
        model = answering + script.summarising - summarising + made * script.delay
        took = Took(time.perf_counter() - began - model, time.process_time() - used - (script.worked - worked))
        if made:
            self.due.append(took)
        elif not self.due:
            self.idle.append(took)
        return reply


async def compaction(_: Path, *, rounds: int = 3, messages: int = 1000) -> list[Row]:
    """Measure a thousand messages: a call without compaction, and the call before which a summary is made.

    The summary takes a model's time, in which this process is otherwise idle, as beside a real provider. Reading ahead
    in that time is reported separately, and is included in the processor time.
    """
    idle, due, beside = list[Took](), list[Took](), list[float]()
    for number in range(rounds):
        conversation = fixtures.work(SEED + number, turns=90, calls=6)
        script = _TimedScript(conversation, Provider(), summarisers.brief, delay=_SUMMARY_SECONDS)
        policy = {"trigger": {"messages": messages, "tokens": 10_000_000}, "prune": {"overChars": 100_000_000}}
        async with compacting(script, policy, window=10_000_000) as system:
            link: Any = _TimedLink(system.link, script)
            system.link = link
            while not system.compactions():
                await system.play(1)
            idle += link.idle[-10:]
            due += link.due
            began = time.perf_counter()
            ExtractionCache().read(system.stored, behind=0)
            beside.append(time.perf_counter() - began)
    usual, shortened = _median_of(idle), _median_of(due)
    return [
        Row(f"compaction of {messages:,} messages, the model aside", shortened.wall * 1000, "ms", 20.0),
        Row(
            "… time of the processor, beyond that of a call in which nothing is due",
            (shortened.cpu - usual.cpu) * 1000,
            "ms",
            is_difference=True,
        ),
        Row("… read of them while the model writes, at most", statistics.median(beside) * 1000, "ms"),
        Row("… a call of the model before that", usual.wall * 1000, "ms"),
    ]


def _median_of(took: Sequence[Took]) -> Took:
    return Took(statistics.median(each.wall for each in took), statistics.median(each.cpu for each in took))


async def memory(folder: Path) -> list[Row]:
    """Measure the process as it is shipped, after its first task."""
    async with _talking(folder) as (_, agent), Wire(agent.port, TOKEN) as wire:
        before = agent.pss_kib()
        await _heard(wire)
        await asyncio.sleep(1.0)
        after = agent.pss_kib()
    return [
        Row("memory when idle, as PSS", before / 1024, "MiB"),
        Row("… after the first task, as PSS", after / 1024, "MiB", 150.0),
    ]


async def long_answers(folder: Path, *, answers: int = 20, words: int = 30_000) -> list[Row]:
    """Stream long answers concurrently, and measure the resident memory of the agent."""
    async with _talking(folder, pieces=words) as (_, agent):
        # One answer first: the imports of the first task are not part of the figure.
        await _whole(agent.port)
        before = agent.rss_bytes()
        await asyncio.gather(*(_whole(agent.port) for _ in range(answers)))
        peak = agent.rss_bytes(peak=True)
    pieces = answers * words
    return [
        Row(f"{answers} answers of {words:,} words at a time, peak RSS", peak / 2**20, "MiB", 256.0),
        Row("… more than before them, for each piece", max(0, peak - before) / pieces, "B", 200.0),
    ]


async def _whole(port: int) -> None:
    """Read a stream to its end."""
    async with Wire(port, TOKEN) as wire:
        async for _ in wire.stream(message("Tell me.", method="SendStreamingMessage")):
            pass


PARTS = {
    "durable": Part(durable, {"rounds": 1, "turns": 20}),
    "recall": Part(recall, {"facts": 300, "questions": 20}),
    "first_token": Part(first_token, {"warm": 1, "times": 5}),
    "prompt": Part(prompt, {"times": 3}),
    "compaction": Part(compaction, {"rounds": 1, "messages": 150}),
    "memory": Part(memory),
    "long_answers": Part(long_answers, {"answers": 2, "words": 500}),
}
