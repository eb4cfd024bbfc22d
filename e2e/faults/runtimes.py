"""The HTTP endpoints of agents whose pods have no containers: their activity, open questions and decisions.

An annotation of the Agent describes its runtime, so a step changes the runtime with an ordinary patch. Each pod gets an
address of its own on loopback. A runtime is idle as soon as an operator has polled its current questions and no
question is about to expire.

A question with `expires` expires some seconds after an operator has created its Approval and has escalated it, so that
the result does not depend on the speed of the machine.
"""

import asyncio
import contextlib
import hashlib
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from aiohttp import web
from e2e.cluster.ports import free_address
from e2e.control_plane.client import Object
from e2e.control_plane.watch_cache import WatchCache

from fleetwright_api import names

RUNTIME = "sweep.example.com/runtime"
"""The annotation of an Agent with a runtime: a JSON object. `asks` has the open questions by id."""
_PORTS = (names.A2A_PORT, names.OPS_PORT)
_LONG_AGO = "2026-01-01T00:00:00Z"
_EXPIRY_SECONDS = 4.0
_POLL_SECONDS = 0.5
_SHORTLY = 8.0
"""Seconds since the last activity of an agent that is not idle. The operator reads such an agent again soon."""


def asks_of(agent: Object) -> dict[str, Any] | None:
    """Return the questions by id; None if the Agent has no runtime."""
    described = agent["metadata"].get("annotations", {}).get(RUNTIME)
    return None if described is None else dict(json.loads(described)["asks"])


def digest_of(arguments: Object) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(arguments).encode()).hexdigest()}"


@dataclass
class _Pod:
    namespace: str
    agent: str
    address: str
    runner: web.AppRunner
    polled: set[str] = field(default_factory=set)
    """The versions that an operator has polled."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Runtimes:
    """A context manager with the endpoints of all pods whose Agent has the annotation."""

    def __init__(self, cache: WatchCache) -> None:
        """Args: `cache` has Agents, Pods and Approvals."""
        self._cache = cache
        self._pods: dict[str, _Pod] = {}
        """By uid."""
        self._decisions: dict[tuple[str, str], Object] = {}
        """The first decision about each question, by the uid of the Agent and the id of the question."""
        self._expiries: dict[tuple[str, str], str] = {}
        """The last expiry of each question with `expires`, by the uid of the Agent and the id of the question."""
        self._tasks: set[asyncio.Task[None]] = set()
        cache.listeners.append(self._hear)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        await asyncio.gather(*(pod.runner.cleanup() for pod in self._pods.values()), *self._tasks)

    async def address(self, pod: Object) -> str:
        """Return the address at which the runtime of this pod listens from now on; empty without a runtime."""
        metadata = pod["metadata"]
        space, name = metadata["namespace"], metadata.get("labels", {}).get(names.AGENT_LABEL, "")
        agent = self._cache.find("Agent", space, name)
        if agent is None or asks_of(agent) is None:
            return ""
        if metadata["uid"] not in self._pods:
            app = web.Application()
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
            made = _Pod(space, name, free_address(), runner)
            self._pods[metadata["uid"]] = made
            app.add_routes(self._routes(made))
            await runner.setup()
            for port in _PORTS:
                await web.TCPSite(runner, made.address, port).start()
        return self._pods[metadata["uid"]].address

    def _routes(self, pod: _Pod) -> list[web.RouteDef]:
        async def status(_: web.Request) -> web.Response:
            return web.json_response({"activity": self._activity(pod)})

        async def listing(request: web.Request) -> web.Response:
            return web.json_response(await self._listing(pod, request.query))

        async def decision(request: web.Request) -> web.Response:
            code, document = self._decide(pod, request.match_info["ask"], await request.json())
            return web.json_response(document, status=code)

        return [
            web.get("/status", status),
            web.get("/approvals", listing),
            web.post("/approvals/{ask}/decision", decision),
        ]

    def _activity(self, pod: _Pod) -> Object:
        agent = self._cache.find("Agent", pod.namespace, pod.agent)
        is_expiring = any(ask["expiresAt"] for ask in self._open(pod))
        is_idle = agent is None or not asks_of(agent) or (self._version(pod) in pod.polled and not is_expiring)
        now = time.time()
        counts = dict.fromkeys(("runningTasks", "waitingTasks", "openStreams", "undeliveredPushes"), 0)
        last = _LONG_AGO if is_idle else _text(now - _SHORTLY)
        return {**counts, "startedAt": _LONG_AGO, "lastTaskActivity": last, "scrapedAt": _text(now)}

    async def _listing(self, pod: _Pod, query: Any) -> Object:
        after = query.get("after")
        if after is not None:
            pod.polled.add(after)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(float(query["wait"])):
                while self._version(pod) == after:
                    pod.changed.clear()
                    with contextlib.suppress(TimeoutError):  # A question may expire meanwhile.
                        await asyncio.wait_for(pod.changed.wait(), _POLL_SECONDS)
        return {"version": self._version(pod), "open": self._open(pod)}

    def _open(self, pod: _Pod) -> list[Object]:
        agent = self._cache.find("Agent", pod.namespace, pod.agent)
        if agent is None:
            return []
        uid = agent["metadata"]["uid"]
        found = []
        for ask, more in (asks_of(agent) or {}).items():
            expiry = self._expiry(pod, uid, ask) if "expires" in more else None
            if (uid, ask) not in self._decisions and expiry != "":
                found.append(_ask(ask, more["arguments"], expiry))
        return found

    def _expiry(self, pod: _Pod, uid: str, ask: str) -> str:
        """Return when the question expires; empty after that.

        An Approval keeps the expiry with which it was created. Until it exists, a question that has expired is asked
        again.
        """
        approval = self._cache.find(names.APPROVAL, pod.namespace, names.approval(pod.agent, ask))
        if approval is not None:
            expiry = str(approval["spec"]["request"]["expiresAt"])
            has_passed = expiry <= _text(time.time())
            return "" if has_passed and "escalated" in approval.get("status", {}) else expiry
        expiry = self._expiries.get((uid, ask), "")
        if expiry <= _text(time.time()):
            expiry = self._expiries[uid, ask] = _text(time.time() + _EXPIRY_SECONDS)
        return expiry

    def _version(self, pod: _Pod) -> str:
        return hashlib.sha256(json.dumps(self._open(pod)).encode()).hexdigest()

    def _decide(self, pod: _Pod, ask: str, decision: Object) -> tuple[int, Object]:
        """Accept the first decision about a question. The same decision again gets the same answer."""
        agent = self._cache.find("Agent", pod.namespace, pod.agent)
        uid = "" if agent is None else agent["metadata"]["uid"]
        if first := self._decisions.get((uid, ask)):
            made = {key: first[key] for key in ("decision", "decidedBy")}
            return (200, {"outcome": "accepted"}) if first == decision else (409, {"outcome": "decided", **made})
        if ask not in [each["ask"] for each in self._open(pod)]:
            return 404, {"outcome": "notFound"}
        self._decisions[uid, ask] = decision
        pod.changed.set()
        return 200, {"outcome": "accepted"}

    def _hear(self, event: str, kind: str, body: Object) -> None:
        metadata = body["metadata"]
        if kind == "Agent":
            for pod in self._pods.values():
                if (pod.namespace, pod.agent) == (metadata["namespace"], metadata["name"]):
                    pod.changed.set()
        elif event == "DELETED" and (ended := self._pods.pop(metadata["uid"], None)):
            task = asyncio.create_task(ended.runner.cleanup())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _ask(ask: str, arguments: Object, expires_at: str | None) -> Object:
    return {
        "task": f"task-of-{ask}",
        "context": "c",
        "ask": ask,
        "tool": "load_skill",
        "title": "Load?",
        "preview": "Loads a skill",
        "arguments": arguments,
        "argumentsDigest": digest_of(arguments),
        "requestedBy": "user:anna",
        "chain": [],
        "createdAt": _LONG_AGO,
        "expiresAt": expires_at,
    }


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
