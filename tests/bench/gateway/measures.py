"""The measures of `make bench-gateway`. Each takes a folder for files and returns rows."""

import asyncio
import gc
import http.client
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.ports import free_port
from joserfc.jwk import ECKey
from tests.bench.echo import served as echo
from tests.bench.echo.served import TOKEN, Served
from tests.bench.echo.wire import Wire, load, message
from tests.bench.gateway.cluster import fill
from tests.bench.gateway.routes import Route, measure_alternating
from tests.bench.gateway.served import CALLER, PERSON, gateway, pass_through, write_keys
from tests.bench.parts import Part
from tests.bench.table import Row
from tests.support.machine import ceiling

from fleetwright_a2a.tokens.actors import Actor
from fleetwright_a2a.tokens.dpop import Nonces, ProofRequest, ProofVerifier, make_proof, new_proof_key, thumbprint
from fleetwright_a2a.tokens.keys import KeySet
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, mint, verify
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.registry.search_index import SearchIndex

_REQUEST_LINE = "POST /agents/bench/echo/a2a"


@dataclass(frozen=True)
class Pair:
    """An agent, and the gateway in front of it."""

    agent: Served
    gateway: Served

    def wire(self, *, direct: bool) -> Wire:
        return Wire(self.agent.port, TOKEN) if direct else Wire(self.gateway.port, CALLER, request_line=_REQUEST_LINE)

    @property
    def routes(self) -> dict[str, Route]:
        return {
            "direct": Route(self.agent.port, TOKEN),
            "gateway": Route(self.gateway.port, CALLER, request_line=_REQUEST_LINE, proxy=self.gateway),
        }


@asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[Pair]:
    agent = echo.ours(Path(sys.executable), folder)
    files = folder / f"gateway-{agent.port}"
    files.mkdir()
    write_keys(files, folder / f"ours-{agent.port}")
    async with agent, gateway(files, agent_port=agent.port) as front:
        found = Pair(agent, front)
        for route in found.routes.values():
            await load(route.port, route.token, "reply", at_once=1, seconds=0.5, request_line=route.request_line)
        yield found


async def latency(folder: Path, *, rounds: int = 15, seconds: float = 0.4) -> list[Row]:
    """Measure the latency that the gateway adds, and its rate compared with direct calls and with a minimal proxy."""
    async with pair(folder) as servers, pass_through(agent_port=servers.agent.port) as bare:
        alone = await measure_alternating(servers.routes, servers.agent, at_once=1, rounds=rounds, seconds=seconds)
        routes = servers.routes | {"bare": Route(bare.port, TOKEN, proxy=bare)}
        many = await measure_alternating(routes, servers.agent, at_once=16, rounds=rounds, seconds=seconds)
    added = [1000 * (alone["gateway"].quantile(part) - alone["direct"].quantile(part)) for part in (0.5, 0.99)]
    direct, ours, floor = many["direct"], many["gateway"], many["bare"]
    processor = (
        ("gateway / minimal proxy", "proxy", floor),
        ("agent, through the gateway / direct", "agent", direct),
        ("client, through the gateway / direct", "client", direct),
    )
    return [
        Row("added latency, c=1, p50", added[0], "ms", 2.5, is_difference=True),
        Row("added latency, c=1, p99", added[1], "ms", 8.0, is_difference=True),
        Row("rate, c=16: gateway / direct", ours.rate, "/s", 0.6, direct.rate, at_least=True),
        Row("rate, c=16: minimal proxy / direct", floor.rate, "/s", None, direct.rate, is_reference=True),
        Row("rate, c=16: gateway / minimal proxy", ours.rate, "/s", None, floor.rate),
        *(
            Row(
                f"processor time of a request: {name}",
                ours.microseconds(process),
                "µs",
                None,
                beside.microseconds(process),
            )
            for name, process, beside in processor
        ),
    ]


def _share(took: list[float], part: float) -> float:
    return sorted(took)[int(part * (len(took) - 1))]


async def streams(folder: Path, *, times: int = 100, idle: int = 1000) -> list[Row]:
    """Measure the first byte of a stream, and the memory of a thousand streams that send nothing."""
    async with pair(folder) as servers:
        first: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(times):
            for direct, found in first.items():
                found.append(await _first_event(servers, direct=direct))
        later = 1000 * (statistics.median(first[False]) - statistics.median(first[True]))
        before = servers.gateway.rss_bytes()
        async with AsyncExitStack() as stack:
            for _ in range(idle):
                wire = await stack.enter_async_context(servers.wire(direct=False))
                await anext(wire.stream(message("hang", method="SendStreamingMessage")))
            each = (servers.gateway.rss_bytes() - before) / 1024 / idle
    return [
        Row("first byte of a stream later than direct, p50", later, "ms", 3.0, is_difference=True),
        Row("memory of an idle stream", each, "KiB", 40.0),
    ]


async def _first_event(servers: Pair, *, direct: bool) -> float:
    async with servers.wire(direct=direct) as wire:
        began = time.perf_counter()
        await anext(wire.stream(message("task", method="SendStreamingMessage")))
        return time.perf_counter() - began


async def tokens(_: Path, *, times: int = 500, fresh_keys: int = 200) -> list[Row]:
    """Measure how long a pair token takes to sign, and to verify with and without the cache."""
    key, now = ECKey.generate_key("P-256", auto_kid=True), int(time.time())
    claims = PairTokenClaims(
        issuer="i", subject="user:a", actor=Actor("user:a", ""), audience="u", token_id="t", issued_at=now,
        expires_at=now + 60,
    )  # fmt: skip
    public, token = key.as_dict(private=False), mint(claims, key)
    keys = KeySet([public])
    verify(token, keys, issuer="i", audience="u", now=now)
    fresh = iter([KeySet([public]) for _ in range(fresh_keys)])
    known = _median(lambda: verify(token, keys, issuer="i", audience="u", now=now), times=times)
    return [
        Row("sign a pair token", 1000 * _median(lambda: mint(claims, key), times=times), "ms", 1.0),
        Row(
            "verify, not cached",
            1000 * _median(lambda: verify(token, next(fresh), issuer="i", audience="u", now=now), times=fresh_keys),
            "ms",
            0.5,
        ),
        Row("verify, cached", 1e6 * known, "µs", 20.0),
        *_measure_proofs(token, now, times=times),
    ]


def _measure_proofs(token: str, now: int, *, times: int) -> list[Row]:
    """Measure a proof of possession. Each request for a direct call has one, and none can be cached."""
    key, nonces, verifier = new_proof_key(), Nonces(b"secret"), ProofVerifier()
    nonce, url = nonces.current(now), "http://writer.team/a2a"
    request = ProofRequest("POST", [url], token, thumbprint(key))

    def prove() -> str:
        return make_proof(key, method="POST", url=url, now=now, token=token, nonce=nonce)

    sent = iter([prove() for _ in range(times)])
    return [
        Row("make a proof of possession", 1000 * _median(prove, times=times), "ms", 1.0),
        Row(
            "verify a proof of possession",
            1000 * _median(lambda: verifier.verify([next(sent)], request, nonces=nonces, now=now), times=times),
            "ms",
            0.5,
        ),
    ]


def _median(act: Callable[[], object], *, times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


async def registry(folder: Path, *, many: int = 10_000, first: int = 1000, searches: int = 300) -> list[Row]:
    """Measure searches over HTTP of a person who may call all agents, and the memory of an agent."""
    fleet = Fleet()
    index = SearchIndex(fleet)
    gc.collect()
    before = _rss_kib()
    fill(fleet, many)
    began = time.perf_counter()
    index.documents(fleet.sorted_agents)
    cold = 1000 * (time.perf_counter() - began)
    each = (_rss_kib() - before) / many
    files = folder / "registry"
    files.mkdir()
    write_keys(files)
    async with gateway(files, agent_port=free_port(), others=many) as front:
        numbers = range(first, first + searches + _FIRST_SEARCHES)
        lists = await asyncio.to_thread(
            _search_times, front.port, numbers, lambda n: ("GET", f"/v1/agents?text=agent-{n}", None)
        )
        searched = await asyncio.to_thread(
            _search_times,
            front.port,
            numbers,
            lambda n: ("POST", "/search", {"query": {"text": f"agent-{n} sum numbers"}}),
        )
    return [
        Row(f"GET /v1/agents?text= among {many:,} agents, p50", 1000 * statistics.median(lists), "ms"),
        Row("… p99", 1000 * _share(lists, 0.99), "ms", 10.0),
        Row("POST /search (ARD), every agent matches, p50", 1000 * statistics.median(searched), "ms"),
        Row("… p99", 1000 * _share(searched, 0.99), "ms", 10.0),
        Row("the first search builds the index", cold, "ms"),
        Row("memory of an agent", each, "KiB", 20.0),
    ]


_FIRST_SEARCHES = 10
"""The first searches of a connection fill caches, and are not measured."""


def _search_times(port: int, numbers: Sequence[int], request: Callable[[int], tuple[str, str, object]]) -> list[float]:
    """Search for each of these agents, one after the other on one connection. Return the seconds of each search."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ceiling())
    headers = {"Authorization": f"Bearer {PERSON}", "Content-Type": "application/json"}
    took = []
    for number in numbers:
        verb, path, body = request(number)
        began = time.perf_counter()
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        took.append(time.perf_counter() - began)
        names = [each.get("name", each.get("displayName")) for each in found.get("items", found.get("results", []))]
        assert names[0] == f"agent-{number}", answer.status
    connection.close()
    return took[_FIRST_SEARCHES:]


async def memory(folder: Path) -> list[Row]:
    """Measure a gateway that has answered a few requests."""
    async with pair(folder) as servers:
        await asyncio.sleep(1)
        return [Row("idle memory, with two agents", servers.gateway.rss_bytes() / 1e6, "MB", 80.0)]


def _rss_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


PARTS = {
    "latency": Part(latency, {"rounds": 1, "seconds": 0.3}),
    "streams": Part(streams, {"times": 5, "idle": 20}),
    "tokens": Part(tokens, {"times": 20, "fresh_keys": 10}),
    "registry": Part(registry, {"many": 50, "first": 10, "searches": 20}),
    "memory": Part(memory),
}
