"""Polls and deliveries over HTTP, against an agent that keeps the contract of the approval routes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.waiting import await_until

from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.approvals.approval_listing import NOT_SERVED
from fleetwright_operator.approvals.delivery import DeliveryAnswer
from fleetwright_operator.manager.approval_poller import ApprovalPoller
from fleetwright_operator.manager.approvals_client import ApprovalsClient

pytestmark = pytest.mark.process


def cached(kind: str, name: str, **projection: Any) -> CachedObject:
    about = {"namespace": "shop", "name": name, "uid": f"uid-{name}", "resource_version": "1"}
    return CachedObject(kind=kind, projection=projection, **about)


def pod(ip: str = "127.0.0.1") -> CachedObject:
    return cached("Pod", f"pod-{ip}", podIP=ip)


class Agent:
    """The approval routes of a runtime: a version, long polls that end with a change, and one decision for each ask."""

    def __init__(self) -> None:
        self.tokens = {"current"}
        self.version = 1
        self.open: list[dict[str, Any]] = []
        self.polls: list[dict[str, str]] = []
        self.refused = 0
        self.bodies: list[Any] = []
        self.reply: Callable[[web.Request], web.StreamResponse] | None = None
        """Another answer to every request."""
        self._changed = asyncio.Condition()

    async def ask(self, *asks: dict[str, Any]) -> None:
        async with self._changed:
            self.open, self.version = list(asks), self.version + 1
            self._changed.notify_all()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/approvals", self._list)
        app.router.add_post("/approvals/{ask}/decision", self._decide)
        return app

    def _check(self, request: web.Request) -> None:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            self.refused += 1
            raise web.HTTPUnauthorized

    async def _list(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        self.polls.append(dict(request.query))
        if self.reply is not None:
            return self.reply(request)
        after, wait = request.query.get("after"), float(request.query["wait"])
        async with self._changed:
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait_for(lambda: str(self.version) != after)
            except TimeoutError:
                pass
        return web.json_response({"version": str(self.version), "open": self.open})

    async def _decide(self, request: web.Request) -> web.StreamResponse:
        self._check(request)
        if self.reply is not None:
            return self.reply(request)
        self.bodies.append((request.match_info["ask"], await request.json()))
        return web.json_response({"outcome": "accepted"})


class Polls:
    """A poller with one agent behind each loopback address."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.pods = [pod()]
        self.lists: list[tuple[str, Any]] = []
        self.tokens = ["current"]
        self.unusable = False

    def hear(self, agent: CachedObject, document: Any) -> str | None:
        self.lists.append((agent.name, document))
        return None if self.unusable or document is NOT_SERVED else str(document["version"])

    @asynccontextmanager
    async def run(self, *, connections: int = 8, patience: float = 60.0) -> AsyncIterator[ApprovalsClient]:
        async with TestServer(self.agent.app(), host="0.0.0.0") as server:
            client = ApprovalsClient(port=server.port or 0, patience=patience)
            poller = ApprovalPoller(
                lambda: [(cached("Agent", f"agent-{each.name}"), each) for each in self.pods],
                read=client.read,
                tokens=lambda _: self.tokens,
                on_list=self.hear,
                look=0.02,
                connections=connections,
                jitter=lambda: 0.0,
            )
            running = asyncio.create_task(poller.run())
            yield client
            assert not running.done()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.close()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await await_until(
            condition,
            what,
            shown=lambda: f"{len(self.lists)} lists, {len(self.agent.polls)} polls, {self.agent.refused} refusals",
        )


@pytest.fixture
async def polls() -> Polls:
    return Polls(Agent())


async def test_poller_holds_one_poll_and_hears_a_change_at_once(polls):
    async with polls.run():
        await polls.until(lambda: len(polls.agent.polls) == 2, "the agent is polled twice")
        assert polls.agent.polls == [{"wait": "25"}, {"after": "1", "wait": "25"}]
        await asyncio.sleep(0.3)
        assert len(polls.agent.polls) == 2
        loop = asyncio.get_running_loop()
        asked = loop.time()
        await polls.agent.ask({"ask": "a"})
        await polls.until(lambda: len(polls.lists) == 2, "the poller hears a second list")
        assert loop.time() - asked < 20  # The poll itself would end after 25 s.
        assert polls.lists[1] == ("agent-pod-127.0.0.1", {"version": "2", "open": [{"ask": "a"}]})


async def test_poller_polls_each_agent_with_few_connections(polls):
    polls.pods = [pod(f"127.0.0.{number}") for number in range(1, 5)]
    async with polls.run(connections=2):
        names = {f"agent-pod-127.0.0.{number}" for number in range(1, 5)}
        await polls.until(lambda: {name for name, _ in polls.lists} == names, "the poller hears every agent")
        await polls.until(lambda: any(query["wait"] == "4" for query in polls.agent.polls), "a poll lasts 4 s")


async def test_poller_stops_with_its_pod_and_starts_with_the_next(polls):
    async with polls.run():
        await polls.until(lambda: len(polls.agent.polls) == 2, "the agent is polled twice")
        polls.pods = []
        await asyncio.sleep(0.5)
        await polls.agent.ask({"ask": "a"})
        await asyncio.sleep(0.2)
        assert len(polls.lists) == 1
        polls.pods = [pod("127.0.0.9")]
        await polls.until(lambda: len(polls.lists) == 2, "the poller hears a second list")
        assert polls.lists[1][0] == "agent-pod-127.0.0.9"


async def test_poller_retries_with_the_previous_key(polls):
    """A new card key may not have reached the agent yet."""
    polls.tokens = ["next", "current"]
    async with polls.run() as client:
        await polls.until(lambda: polls.lists, "the poller hears a list")
        assert polls.agent.refused
        outcome = await client.deliver(pod(), polls.tokens, "a/b c", {"task": "t"})
    assert outcome.answer is DeliveryAnswer.ACCEPTED
    assert polls.agent.bodies == [("a/b c", {"task": "t"})]


def _slow(body: bytes, status: int = 200) -> Callable[[web.Request], web.Response]:
    return lambda _: web.Response(body=body, status=status)


BAD = [
    pytest.param(_slow(b"", 503), id="an agent that drains"),
    pytest.param(_slow(b"not json"), id="no JSON"),
    pytest.param(_slow(b"[" * 60_000), id="a document that nests without end"),
    pytest.param(_slow(b" " * (5 * 1024 * 1024) + b"{}"), id="an endless document"),
    pytest.param(lambda _: web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), id="a redirect"),
]


@pytest.mark.parametrize("reply", BAD)
async def test_poller_backs_off_from_an_agent_that_misbehaves(polls, reply):
    polls.agent.reply = reply
    async with polls.run() as client:
        await polls.until(lambda: polls.agent.polls, "the agent is polled")
        await asyncio.sleep(0.3)
        assert (len(polls.agent.polls), polls.lists) == (1, [])
        outcome = await client.deliver(pod(), polls.tokens, "a", {})
        assert outcome.answer is DeliveryAnswer.NONE
        polls.agent.reply = None
        await polls.until(lambda: polls.lists, "the poller hears a list")


async def test_poller_tells_that_an_image_has_no_route(polls):
    polls.agent.reply = _slow(b'{"version": "1", "open": []}', 404)
    async with polls.run():
        await polls.until(lambda: polls.lists, "the poller hears a list")
        await asyncio.sleep(0.3)
        assert (len(polls.agent.polls), polls.lists) == (1, [("agent-pod-127.0.0.1", NOT_SERVED)])
        polls.agent.reply = None
        await polls.until(lambda: len(polls.lists) > 1, "the poller hears a second list")


async def test_poller_backs_off_from_an_unusable_list(polls):
    polls.unusable = True
    async with polls.run():
        await polls.until(lambda: polls.lists, "the poller hears a list")
        await asyncio.sleep(0.3)
        assert len(polls.agent.polls) == 1


async def test_poller_slows_down_for_a_list_that_always_changes(polls):
    numbers = iter(range(10_000))
    polls.agent.reply = lambda _: web.json_response({"version": str(next(numbers)), "open": []})
    async with polls.run():
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(1.0)
        await polls.until(lambda: len(polls.agent.polls) >= 2, "the agent is polled twice")
        assert len(polls.agent.polls) <= 6 * (loop.time() - began)


async def test_client_gives_up_after_its_patience(polls):
    async with polls.run(patience=0.2) as client:

        async def hang(_: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return web.Response()

        app = web.Application()
        app.router.add_post("/approvals/{ask}/decision", hang)
        async with TestServer(app) as server:
            slow = ApprovalsClient(port=server.port or 0, patience=0.2)
            outcome = await slow.deliver(pod(), polls.tokens, "a", {})
            await slow.close()
        assert (outcome.answer, outcome.message) == (DeliveryAnswer.NONE, "the agent did not answer")
        assert (await client.deliver(pod(), [], "a", {})).answer is DeliveryAnswer.NONE


async def test_client_sends_the_decision_as_json(polls):
    document = {"task": "t-1", "decision": "Denied", "decidedBy": "alice", "reason": "ü"}
    async with polls.run() as client:
        assert (await client.deliver(pod(), polls.tokens, "a-1", document)).answer is DeliveryAnswer.ACCEPTED
    assert json.loads(json.dumps(polls.agent.bodies)) == [["a-1", document]]
