"""The reader of agent statuses: its schedule and order, and that a slow pod does not block other pods."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.waiting import await_until, within

from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.manager.agent_status_reader import AgentStatusReader, StatusResult

pytestmark = pytest.mark.process

SAID = {"revision": "0123456789"}


def pod(
    uid: str = "u",
    *,
    ready: str = "True",
    ip: str = "127.0.0.1",
    label: str = "fleetwright.dev/agent",
    created: str = "2026-03-01T12:00:00Z",
    deleting: bool = False,
    started: bool | None = None,
) -> CachedObject:
    containers = [{"name": "sidecar", "started": True}, {"name": "agent", "started": started}]
    facts = {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": containers}
    about = {"namespace": "shop", "name": uid, "uid": uid, "resource_version": "1", "created": created}
    about["deleting"] = deleting
    return CachedObject(kind="Pod", labels={label: "poet"}, projection=facts, **about)


class Pods:
    """A server on all loopback addresses. Each address is a pod with its own behaviour."""

    def __init__(self) -> None:
        self.there: list[CachedObject] = []
        self.bodies: dict[str, bytes] = {}
        """The responses by address. All other addresses send a valid status."""
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.heard: list[tuple[str, object]] = []
        self.result = StatusResult(is_complete=True)
        self.now = 100.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        ip = request.host.partition(":")[0]
        self.asked.append(ip)
        if ip in self.silent:
            await asyncio.sleep(60)
        body = self.bodies.get(ip, json.dumps(SAID).encode())
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(body), 7_000):
            await response.write(body[start : start + 7_000])
            await asyncio.sleep(0)
        return response

    def hear(self, pod: CachedObject, document: object) -> StatusResult:
        self.heard.append((pod.uid, document))
        return self.result

    @asynccontextmanager
    async def read(self, *, patience: float = 60.0) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/status", self.answer)
        async with TestServer(app, host="0.0.0.0") as server:  # loopback has many addresses
            reader = AgentStatusReader(
                lambda: self.there,
                on_status=self.hear,
                look=0.01,
                patience=patience,
                clock=lambda: self.now,
                port=server.port or 0,
            )
            running = asyncio.create_task(reader.run())
            yield
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def until_asked(self, times: int) -> None:
        await self.until(lambda: len(self.asked) >= times, f"the reader asks {times} times")
        await asyncio.sleep(0.05)  # time for an excess request
        assert len(self.asked) == times

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await await_until(
            condition,
            what,
            shown=lambda: f"asked {len(self.asked)}, heard {len(self.heard)}",
        )


@pytest.fixture
def pods() -> Pods:
    return Pods()


async def test_status_reader_polls_only_ready_agents_every_minute(pods):
    others = [pod("b", ready="False"), pod("c", ip=""), pod("d", label="fleetwright.dev/mcpserver")]
    pods.there = [pod("a"), *others]
    async with pods.read():
        await pods.until_asked(1)
        assert pods.heard == [("a", SAID)]
        pods.now += 80
        await pods.until_asked(2)
    assert pods.heard == [("a", SAID)] * 2


async def test_status_reader_reads_a_pod_that_has_started_and_is_not_ready(pods):
    """Such a pod may wait for the memory volume. A pod that still starts does not answer yet."""
    pods.there = [pod("waits", ready="False", started=True), pod("starts", ready="False", started=False)]
    async with pods.read():
        await pods.until_asked(1)
    assert pods.heard == [("waits", SAID)]


async def test_status_reader_reads_a_pod_at_once_when_it_ends(pods):
    pods.there = [pod("a")]
    async with pods.read():
        await pods.until_asked(1)
        pods.there = [pod("a", ready="False", deleting=True)]
        await pods.until_asked(2)
    assert pods.heard == [("a", SAID)] * 2


async def test_status_reader_connects_over_ipv6():
    try:
        server = TestServer(web.Application(), host="::1")
        server.app.router.add_get("/status", _says_it)
        await server.start_server()
    except OSError:
        pytest.skip("this machine has no ::1")
    heard: asyncio.Queue[object] = asyncio.Queue()
    reader = AgentStatusReader(
        lambda: [pod("a", ip="::1")],
        on_status=lambda _, document: StatusResult(heard.put_nowait(document) is None),
        clock=time.monotonic,
        port=server.port or 0,
    )
    running = asyncio.create_task(reader.run())
    async with server, within("the status of the agent is heard"):
        assert await heard.get() == SAID
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _says_it(_: web.Request) -> web.Response:
    return web.json_response(SAID)


async def test_status_reader_reads_a_pod_that_is_no_longer_ready(pods):
    pods.there = [pod("a"), pod("starting", ready="False")]
    pods.result = StatusResult(is_complete=False)
    async with pods.read():
        await pods.until_asked(1)
        pods.there = [pod("a", ready="False"), pod("starting", ready="False")]
        await pods.until_asked(2)
        pods.now += 13
        await pods.until_asked(3)
        pods.result = StatusResult(is_complete=True)
        pods.there = [pod("a")]
        await pods.until_asked(4)
        pods.now += 40
        await pods.until_asked(4)
    assert pods.heard == [("a", SAID)] * 4


async def test_status_reader_reads_unready_pods_after_the_others(pods):
    lost = [f"127.0.1.{number}" for number in range(1, 65)]
    pods.there = [pod(ip, ip=ip) for ip in lost]
    async with pods.read(patience=1.5):
        await pods.until(lambda: len(pods.heard) == 64, "64 pods answer")
        pods.silent = set(lost)
        pods.there = [pod(ip, ip=ip, ready="False") for ip in lost]
        await pods.until(lambda: len(pods.asked) > 64, "the reader asks an unready pod")
        pods.there = [*pods.there, pod("new")]
        await pods.until(lambda: len(pods.heard) == 65, "the new pod answers")
        assert len(pods.asked) < 64 + 30


BODIES = [
    pytest.param(json.dumps({**SAID, "more": "x" * 60_000}).encode(), True, id="a document that comes in pieces"),
    pytest.param(b"[" * 60_000, False, id="one that nests without end"),
    pytest.param(b" " * 70_000 + b"{}", False, id="one that is too long"),
    pytest.param(b"{", False, id="half of one"),
    pytest.param(b"not json", False, id="none"),
    pytest.param(b"\xff\xfe", False, id="no text"),
]


@pytest.mark.parametrize(("body", "heard"), BODIES)
async def test_status_reader_survives_any_response_body(pods, body, heard):
    pods.bodies["127.0.0.2"] = body
    pods.there = [pod("odd", ip="127.0.0.2")]
    async with pods.read():
        await pods.until_asked(1)
        assert [uid for uid, _ in pods.heard] == (["odd"] if heard else [])
        pods.there.append(pod("plain"))
        await pods.until_asked(2)
    assert pods.heard[-1] == ("plain", SAID)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"message": "a \\ud800 \\ud83e\\udd8a"}', id="as an escape"),
        pytest.param(b'{"message": "a \xed\xa0\x80 \xf0\x9f\xa6\x8a"}', id="as bytes"),
    ],
)
async def test_status_reader_replaces_lone_surrogates(pods, body):
    pods.bodies["127.0.0.1"] = body
    pods.there = [pod("a")]
    async with pods.read():
        await pods.until_asked(1)
    assert pods.heard == [("a", {"message": "a \ufffd 🦊"})]


async def test_status_reader_backs_off_from_failing_pods(pods):
    pods.bodies["127.0.0.1"] = b"nonsense"
    pods.there = [pod()]
    times = 1
    async with pods.read():
        for longest in (72, 144, 288, 360, 360):
            await pods.until_asked(times)
            pods.now += longest / 1.2 * 0.8 - 1
            await pods.until_asked(times)
            pods.now += longest / 3 + 2
            times += 1
        await pods.until_asked(times)
        pods.bodies.clear()
        pods.now += 360
        await pods.until_asked(times + 1)
        pods.now += 72
        await pods.until_asked(times + 2)


async def test_status_reader_polls_an_incomplete_agent_sooner(pods):
    pods.there = [pod("a")]
    pods.result = StatusResult(is_complete=False)
    times = 1
    async with pods.read():
        for longest in (12, 24, 48, 72, 72):
            await pods.until_asked(times)
            pods.now += longest / 1.2 * 0.8 - 1
            await pods.until_asked(times)
            pods.now += longest / 3 + 2
            times += 1
        pods.result = StatusResult(is_complete=True)
        await pods.until_asked(times)
        pods.now += 47
        await pods.until_asked(times)
        pods.now += 47
        await pods.until_asked(times + 1)


async def test_status_reader_polls_an_agent_when_it_may_sleep(pods):
    pods.there = [pod("a")]
    pods.result = StatusResult(is_complete=True, sleeps_in=9)
    async with pods.read():
        await pods.until_asked(1)
        pods.now += 8
        await pods.until_asked(1)
        pods.result = StatusResult(is_complete=True)
        pods.now += 2
        await pods.until_asked(2)
        pods.now += 47
        await pods.until_asked(2)


async def test_status_reader_polls_new_pods_despite_silent_ones(pods):
    lost = [f"127.0.1.{number}" for number in range(1, 65)]
    pods.silent = set(lost)
    pods.there = [pod(ip, ip=ip) for ip in lost]
    async with pods.read(patience=1.5):
        await pods.until(lambda: pods.asked, "the reader asks a pod")
        pods.there = [*pods.there, pod("new", created="2026-03-01T12:00:01Z")]
        await pods.until(lambda: pods.heard, "the new pod answers")
        # A plain queue would read the new pod last. It is read as soon as one of the others times out.
        assert len(pods.asked) < 30
        await pods.until(lambda: len(pods.asked) >= 65, "the reader has asked every pod")
        pods.now += 80
        await pods.until(lambda: len(pods.heard) == 2, "the new pod answers again")
        # Pods that answered are read before those that did not.
        assert len(pods.asked) < 65 + 30
    assert pods.heard == [("new", SAID)] * 2


async def test_status_reader_ends_if_cancelled_during_a_timeout(pods):
    pods.silent = {"127.0.0.1"}
    pods.there = [pod()]
    async with within("the reader ends"), pods.read(patience=0.2):
        await pods.until(lambda: pods.asked, "the reader asks a pod")
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop must see both at once
