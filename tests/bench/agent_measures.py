"""The measures of `make bench-agent`. Each takes a stage of servers and returns rows."""

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from tests.bench.abuses import ABUSES, suffered
from tests.bench.echo import served
from tests.bench.echo.served import TOKEN, Served
from tests.bench.echo.wire import Wire, load, message
from tests.bench.every_request import every_request
from tests.bench.parts import Part
from tests.bench.table import Row

_MIB = 1024


@dataclass(frozen=True)
class Stage:
    """The folder of the servers' files, and the Python interpreter of each server."""

    folder: Path
    ours: Path
    reference: Path

    def mine(self, *, durable: bool = False) -> Served:
        return served.ours(self.ours, self.folder, durable=durable)

    def theirs(self, *, durable: bool = False) -> Served:
        return served.reference(self.reference, self.folder, durable=durable)


async def start(stage: Stage, *, rounds: int = 5) -> list[Row]:
    """Measure the start of the shipped command, with the model loop, and of the bare server."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    pss: dict[bool, list[int]] = {True: [], False: []}
    ready: list[float] = []
    for _ in range(rounds):
        for is_ours in (True, False):
            server = served.shipped(stage.ours, stage.folder) if is_ours else stage.theirs()
            async with server:
                seconds[is_ours].append(server.start_seconds)
                ready += [server.ready_seconds] if is_ours else []
                await asyncio.sleep(1.0)
                pss[is_ours].append(server.pss_kib())
    began = {who: statistics.median(times) for who, times in seconds.items()}
    idle = {who: statistics.median(sizes) for who, sizes in pss.items()}
    return [
        Row("process start to /healthz", began[True], "s", 1.3, began[False]),
        Row("… in seconds", began[True], "s", 1.0),
        Row("process start to /readyz", statistics.median(ready), "s"),
        Row("idle PSS", idle[True] / _MIB, "MiB", 1.3, idle[False] / _MIB),
    ]


async def rates(
    stage: Stage, *, rounds: int = 3, seconds: float = 2.0, concurrency: Collection[int] = (1, 16)
) -> list[Row]:
    """Measure the requests per second of both servers, interleaved.

    The figure in memory is an upper bound of the figure on disk for any disk.
    """

    def rate(took: list[float]) -> float:
        return len(took) / (rounds * seconds)

    rows, kept_nowhere = list[Row](), 0.0
    for words, text, durable, bars in (
        ("direct reply", "reply", False, (1.5, 2.0)),
        ("task of 4 events in memory", "task", False, (2.0, 2.5)),
        ("task of 4 events on disk", "task", True, (8.0, 20.0)),
    ):
        for at_once in concurrency:
            bar = bars[at_once > 1]
            servers = stage.mine(durable=durable), stage.theirs(durable=durable)
            mine, theirs = await _alternate(servers, text, at_once, rounds=rounds, seconds=seconds)
            auth = ", auth on" if text == "reply" else ""
            rows.append(Row(f"{words}{auth}, c={at_once}", rate(mine), "/s", bar, rate(theirs), at_least=True))
            if text == "task" and at_once > 1 and not durable:
                kept_nowhere = rate(mine)
            if durable and at_once > 1:
                rows.append(
                    Row(
                        f"… floor: ours with nothing on disk, c={at_once}",
                        kept_nowhere,
                        "/s",
                        None,
                        rate(theirs),
                        is_reference=True,
                    )
                )
                rows.append(Row(f"… p99, c={at_once}", _p99_ms(mine), "ms", 0.1, _p99_ms(theirs)))
    return rows


async def _alternate(
    servers: tuple[Served, Served], text: str, at_once: int, *, rounds: int, seconds: float
) -> tuple[list[float], list[float]]:
    """Return the duration of each request to the two servers, which get the requests in alternation."""
    mine, theirs = servers
    took: tuple[list[float], list[float]] = ([], [])
    async with mine, theirs:
        for server in (mine, theirs):
            # The reference creates its tables at its first request, and cannot create them twice.
            await load(server.port, TOKEN, text, at_once=1, seconds=0.5)
        for _ in range(rounds):
            for server, found in zip((mine, theirs), took, strict=True):
                found += await load(server.port, TOKEN, text, at_once=at_once, seconds=seconds)
    return took


def _p99_ms(took: list[float]) -> float:
    return 1000 * sorted(took)[int(0.99 * len(took))]


async def chunks(stage: Stage, *, number: int = 1000) -> list[Row]:
    """Measure a thousand chunks, each of which goes to disk as it is sent."""
    mine, theirs = stage.mine(durable=True), stage.theirs(durable=True)
    cpu = []
    async with mine, theirs:
        for server in (mine, theirs):
            async with Wire(server.port, TOKEN) as wire:
                await wire.post(message("task"))
                before = server.cpu_seconds()
                await wire.post(message(f"chunks {number} 500"))
                cpu.append(server.cpu_seconds() - before)
    return [Row(f"{number:,} durable chunks at 500/s, CPU", cpu[0], "s", 0.1, cpu[1])]


async def memory(stage: Stage, *, parked: int = 5000, ended: int = 20_000) -> list[Row]:
    """Measure the memory that waiting tasks and many ended tasks retain."""
    async with stage.mine(durable=True) as server:
        # First fill everything that has a bound of its own: SQLite's pages, the allocator's arenas.
        await _growth(server, "park", parked)
        of_parked = await _growth(server, "park", parked)
        of_ended = await _growth(server, "task", ended)
    return [
        Row("a parked task", max(0.0, of_parked / parked), "KiB", 1.0),
        Row(f"memory after {ended:,} tasks", max(0.0, of_ended / _MIB), "MiB", 5.0),
    ]


async def requests(stage: Stage, *, number: int = 100_000) -> list[Row]:
    """Measure the memory that many requests retain: every method of every dialect and binding, valid and invalid."""
    async with stage.mine(durable=True) as server:
        await _ask(server, number // 20)
        before = server.pss_kib()
        began = time.perf_counter()
        await _ask(server, number)
        seconds = time.perf_counter() - began
        await asyncio.sleep(1.0)
        grown = max(0.0, (server.pss_kib() - before) / _MIB)
    return [
        Row(f"memory after {number:,} requests of every dialect and binding, good and bad", grown, "MiB", 5.0),
        Row("… a second", number / seconds, "/s"),
    ]


async def _ask(server: Served, number: int) -> None:
    left, asks = iter(range(number)), every_request()

    async def one(version: str) -> None:
        async with Wire(server.port, TOKEN, version=version) as wire:
            for place in left:
                if version and place % 100 == 0:
                    _ = [event async for event in wire.stream(message("task", method="SendStreamingMessage"))]
                    continue
                verb, path, body = asks[place % len(asks)]
                if place % 12 == 0:
                    verb, path, body = "POST", "/a2a", message("task")
                head, answer = await wire.exchange(body, request_line=f"{verb} {path}")
                if b" 500 " in head or b"Traceback" in answer:
                    raise RuntimeError(f"{verb} {path} {body!r}: {head!r} {answer[:300]!r}")

    # Without the header the older versions apply, with it the newest.
    await asyncio.gather(*(one(version) for version in ("", "A2A-Version: 1.0\r\n") for _ in range(4)))


async def _growth(server: Served, text: str, number: int) -> float:
    before, left = server.pss_kib(), iter(range(number))

    async def one() -> None:
        async with Wire(server.port, TOKEN) as wire:
            for _ in left:
                await wire.post(message(text))

    await asyncio.gather(*(one() for _ in range(16)))
    await asyncio.sleep(1.0)
    return float(server.pss_kib() - before)


async def streams(stage: Stage, *, readers: int = 20, tokens: int = 500, idle_streams: int = 1000) -> list[Row]:
    """Measure twenty readers of a hundred tokens a second each, and a thousand readers of idle streams."""
    mine, theirs = stage.mine(), stage.theirs()
    told, first, idle = [], [], []
    for server in (mine, theirs):
        async with server:
            await _listen(server, "chunks 20 100")
            heard = await asyncio.gather(*(_listen(server, f"chunks {tokens} 100") for _ in range(readers)))
            told.append(sum(number for number, _, _ in heard) / max(seconds for _, _, seconds in heard))
            first.append(1000 * statistics.median(at for _, at, _ in heard))
            idle.append(await _idle(server, idle_streams))
    return [
        Row(f"{readers} streams of 100 tokens/s: tokens a second", told[0], "/s", 0.95, 100.0 * readers, at_least=True),
        Row("… the reference's", told[1], "/s", is_reference=True),
        Row("… first event, later than the reference's", first[0] - first[1], "ms", 10.0, is_difference=True),
        Row(f"{idle_streams:,} idle streams, each", idle[0], "KiB", 65.0),
        Row("… the reference's", idle[1], "KiB", is_reference=True),
    ]


async def _listen(server: Served, text: str) -> tuple[int, float, float]:
    """Return the number of tokens, the seconds to the first one, and the seconds to the last one."""
    began = time.perf_counter()
    tokens, first, last = 0, 0.0, 0.0
    async with Wire(server.port, TOKEN) as wire:
        async for event in wire.stream(message(text, method="SendStreamingMessage")):
            if b"artifactUpdate" in event:
                tokens += event.count(b"token ")
                last = time.perf_counter() - began
                first = first or last
    return tokens, first, last


async def _idle(server: Served, number: int) -> float:
    """Return the KiB for each open stream."""
    before = server.pss_kib()
    wires = [Wire(server.port, TOKEN) for _ in range(number)]
    readers = []
    for wire in wires:
        await wire.__aenter__()
        events = wire.stream(message("hang", method="SendStreamingMessage"))
        await anext(events)
        readers.append(events)
    await asyncio.sleep(2.0)
    grown = server.pss_kib() - before
    for wire in wires:
        await wire.__aexit__()
    return grown / number


async def identity(stage: Stage, *, times: int = 5000) -> list[Row]:
    """Measure the check of a token against the maximum number of digests of an agent, without HTTP."""
    from fleetwright_a2a.authentication import AuthenticationMiddleware
    from fleetwright_a2a.clock import Clock
    from fleetwright_agent.config.callers import Callers
    from fleetwright_agent.config.file_watcher import FileWatcher
    from fleetwright_agent.server.auth import MountedTokens, parse_callers

    callers = [{"kind": "agent", "name": f"a/b{n}", "sha256": f"{n:064x}"} for n in range(64)]
    file = stage.folder / "callers.json"
    stage.mine()
    mine = json.loads(next(stage.folder.glob("*/etc/fleetwright/auth/callers.json")).read_text())
    file.write_text(json.dumps({"version": 1, "callers": [*callers, *mine["callers"]]}))
    watched: FileWatcher[Callers] = FileWatcher(file, parse_callers)

    async def nothing(*_: object) -> None:
        """Accept any caller that gets here."""

    def refuse(reason: str) -> None:
        raise RuntimeError(f"the token was rejected: {reason}")

    tokens = MountedTokens(watched, realm="echo", clock=Clock())
    check = AuthenticationMiddleware(nothing, identity=tokens, on_failure=refuse)
    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/a2a", "raw_path": b"/a2a", "headers": headers}
    micros = 1e6 * await _mean(lambda: check(scope, nothing, nothing), times)  # type: ignore[arg-type] # reads and sends nothing
    return [Row("identity check, 65 callers", micros, "µs", 150.0)]


async def _mean(call: Callable[[], Awaitable[None]], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await call()
    return (time.perf_counter() - began) / times


_FEW_ABUSES = ("100 MB body of a stranger", "deep JSON", "thousands of parts", "one giant trailer", "1-byte/s headers")


async def hostile(stage: Stage, *, names: Collection[str] = tuple(ABUSES)) -> list[Row]:
    async with stage.mine() as server:
        async with Wire(server.port, TOKEN) as wire:
            await wire.post(message("task"))
        return [row for name in names for row in await suffered(server, name, ABUSES[name])]


PARTS = {
    "start": Part(start, {"rounds": 1}),
    "rates": Part(rates, {"rounds": 1, "seconds": 0.3, "concurrency": (16,)}),
    "chunks": Part(chunks, {"number": 200}),
    "memory": Part(memory, {"parked": 50, "ended": 50}),
    "requests": Part(requests, {"number": 400}),
    "streams": Part(streams, {"readers": 3, "tokens": 50, "idle_streams": 20}),
    "hostile": Part(hostile, {"names": _FEW_ABUSES}),
    "identity": Part(identity, {"times": 50}),
}
