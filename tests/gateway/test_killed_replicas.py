"""Replicas that are killed or replaced: no accepted request is lost, and no stream of the other replica breaks."""

import asyncio
import json
import os
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.gateway.replica import TOKEN, WOKEN
from tests.support.forked_commands import ForkedProgram, start_module
from tests.support.machine import ceiling
from tests.support.waiting import await_until, within

from fleetwright_gateway.process.sockets import listen

pytestmark = pytest.mark.process
EVENTS = 10


@dataclass
class Worker:
    """An agent that works once on each message, however often the message arrives, as our agents do."""

    port: int = 0
    works: Counter[str] = field(default_factory=Counter)
    """How often the work on each message was done."""
    results: dict[str, "asyncio.Task[str]"] = field(default_factory=dict)
    seen: Callable[[str], None] = lambda _: None
    """Called with each step of a request: `probe`, `received`, `begun`."""
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/readyz":
            self.seen("probe")
            return web.Response(status=200 if self.ready.is_set() else 503)
        call = await request.json()
        self.seen("received")
        name = call["params"]["message"]["messageId"]
        if name not in self.results:
            self.results[name] = asyncio.ensure_future(self._work(name))
        work = self.results[name]
        self.seen("begun")
        if call["method"] == "SendMessage":
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": await asyncio.shield(work)})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(EVENTS):
            await response.write(f"data: {number}\n\n".encode())
            await asyncio.sleep(0.03)
        await response.write(f"data: {await asyncio.shield(work)}\n\n".encode())
        return response

    async def _work(self, name: str) -> str:
        await asyncio.sleep(0.1)
        self.works[name] += 1
        return f"done {name}"


@pytest.fixture
async def worker(process_ring: None) -> AsyncIterator[Worker]:
    agent = Worker()
    agent.ready.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", agent.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = listen(0, host="127.0.0.1")
    agent.port = listener.getsockname()[1]
    await web.SockSite(runner, listener).start()
    yield agent
    await runner.cleanup()


@dataclass
class Replica:
    process: ForkedProgram
    url: str
    lines: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def listen(self, output: asyncio.StreamReader) -> None:
        async for line in output:
            self.lines.put_nowait(line.decode().strip())

    async def kill(self) -> None:
        self.process.kill()
        await self.wait()

    async def wait(self) -> int:
        return await asyncio.to_thread(self.process.wait)


Start = Callable[..., Any]


@pytest.fixture
async def start(worker: Worker, keys: Path, tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a replica. The replicas are killed at the end."""
    async with AsyncExitStack() as stack:

        async def of(*, asleep: bool = False) -> Replica:
            return await stack.enter_async_context(_started(worker, tmp_path, asleep=asleep))

        yield of


@asynccontextmanager
async def _started(worker: Worker, folder: Path, *, asleep: bool) -> AsyncIterator[Replica]:
    arguments = ["--upstream", str(worker.port), "--folder", str(folder), *(["--asleep"] if asleep else [])]
    reader, writer = os.pipe()
    process = start_module("tests.gateway.replica", *arguments, environment=os.environ, stdout=writer)
    os.close(writer)
    output = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(output), os.fdopen(reader, "rb", buffering=0)
    )
    try:
        async with within("the replica writes its port"):
            port = int(await output.readline())
        replica = Replica(process, f"http://127.0.0.1:{port}")
        listening = asyncio.create_task(replica.listen(output))
        yield replica
        listening.cancel()
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        pipe.close()


class Callers:
    """Callers of a list of replicas. A caller whose call breaks sends the same message to the next replica."""

    def __init__(self, session: aiohttp.ClientSession, replicas: list[Replica]) -> None:
        self._session = session
        self.replicas = replicas
        self.broken: Counter[str] = Counter()
        """The number of calls that broke, by the URL of the replica."""
        self.open: defaultdict[str, set[str]] = defaultdict(set)
        """The messages of the calls that have no complete answer yet, by the URL of the replica."""
        self.answers: dict[str, str] = {}

    async def load(self, prefix: str, rounds: int) -> None:
        """Send plain and streaming messages, one after another."""
        for number in range(rounds):
            await self.send(f"{prefix}{number}", stream=number % 2 == 1, at=number + len(prefix))

    async def send(self, name: str, *, stream: bool = False, at: int = 0) -> None:
        for attempt in range(20):
            replica = self.replicas[(at + attempt) % len(self.replicas)]
            self.open[replica.url].add(name)
            try:
                self.answers[name] = await self._sent(replica, name, stream=stream)
            except (aiohttp.ClientError, OSError):
                self.broken[replica.url] += 1
                await asyncio.sleep(0.05)
            else:
                return
            finally:
                self.open[replica.url].discard(name)
        pytest.fail(f"{name} was never answered")

    async def _sent(self, replica: Replica, name: str, *, stream: bool) -> str:
        message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": "x"}]}
        method = "SendStreamingMessage" if stream else "SendMessage"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        url = f"{replica.url}/agents/team/callee/a2a"
        async with self._session.post(url, json=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        if not stream:
            return str(json.loads(text)["result"])
        events = [line.removeprefix("data: ") for line in text.splitlines() if line]
        assert events[:EVENTS] == [str(number) for number in range(EVENTS)]
        return events[-1]


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ceiling())) as found:
        yield found


async def test_killed_replica_loses_nothing_and_breaks_no_other_stream(
    start: Start, worker: Worker, session: Any
) -> None:
    one, other = [await start() for _ in range(2)]
    callers = Callers(session, [one, other])
    working = [asyncio.create_task(callers.load(prefix, 8)) for prefix in ("a", "bb", "c", "dd", "e", "ff")]
    await await_until(lambda: len(worker.works) >= 6, "six works are done", shown=lambda: worker.works)
    await one.kill()
    await asyncio.gather(*working)
    assert callers.broken[one.url] > 0
    assert callers.broken[other.url] == 0
    assert len(callers.answers) == 6 * 8
    assert all(answer == f"done {name}" for name, answer in callers.answers.items())
    assert worker.works == Counter(dict.fromkeys(callers.answers, 1))


async def test_replaced_replica_ends_what_it_has_begun(start: Start, worker: Worker, session: Any) -> None:
    """A rolling update: the next replica starts, and the old one gets SIGTERM while calls and streams are open."""
    one, other = [await start() for _ in range(2)]
    callers = Callers(session, [one, other])
    working = [asyncio.create_task(callers.load(prefix, 8)) for prefix in ("a", "bb", "c", "dd")]
    await await_until(lambda: len(worker.works) >= 4, "four works are done", shown=lambda: worker.works)
    for position in (0, 1):
        old = callers.replicas[position]
        fresh = await start()
        received = len(worker.results)
        callers.replicas[position] = fresh
        # A Service sends no new connections to a replica that leaves. A call that still connects would be one.
        await await_until(
            lambda old=old: callers.open[old.url] <= worker.results.keys(),
            "the agent has every open call of the old replica",
            shown=lambda old=old: callers.open[old.url],
        )
        old.process.send_signal(signal.SIGTERM)
        assert await old.wait() == 0
        assert len(worker.results) >= received
    await asyncio.gather(*working)
    assert callers.broken.total() == 0, "calls that had begun ended, and no call went to a replica that leaves"
    assert worker.works == Counter(dict.fromkeys(callers.answers, 1))
    assert len(callers.answers) == 4 * 8


@pytest.mark.parametrize("phase", ["woken", "probe", "received", "begun", "done"])
async def test_gateway_killed_in_a_wake_loses_no_message(
    start: Start, worker: Worker, session: Any, phase: str
) -> None:
    """The caller sends the message again through the other replica, and the agent works on it once."""
    one, other = [await start(asleep=True) for _ in range(2)]
    steps: list[str] = []
    reached = asyncio.Event()

    def note(step: str) -> None:
        steps.append(step)
        if step == phase and not reached.is_set():
            one.process.kill()
            reached.set()

    worker.seen = note
    if phase in {"woken", "probe"}:
        worker.ready.clear()  # Otherwise the message could reach the agent before the kill.
    callers = Callers(session, [one, other])
    sending = asyncio.create_task(callers.send("m"))
    async with within("the message is answered", shown=lambda: (steps, callers.open)):
        if phase == "woken":
            assert await one.lines.get() == WOKEN
            await one.kill()
        elif phase == "done":
            while not worker.works:  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0)
            one.process.kill()
        else:
            await reached.wait()
        worker.ready.set()
        await sending
    assert callers.answers == {"m": "done m"}
    assert worker.works == Counter({"m": 1})
    assert callers.broken[other.url] == 0
    if phase != "done":
        assert callers.broken[one.url] == 1
        assert await other.lines.get() == WOKEN


async def test_two_replicas_that_wake_an_agent_both_answer(start: Start, worker: Worker, session: Any) -> None:
    replicas = [await start(asleep=True) for _ in range(2)]
    callers = Callers(session, replicas)
    await asyncio.gather(*(callers.send(f"m{number}", stream=number > 3, at=number) for number in range(8)))
    assert callers.broken.total() == 0
    assert worker.works == Counter({f"m{number}": 1 for number in range(8)})
    assert [(await replica.lines.get(), replica.lines.empty()) for replica in replicas] == [(WOKEN, True)] * 2
