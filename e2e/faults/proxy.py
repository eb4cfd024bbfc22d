"""An HTTP proxy between one operator process and the API server, which injects the faults of a `Plan`.

The proxy serves plain HTTP to the operator and forwards its token. Requests for Leases are never changed, because
another test covers leader election. `sees` selects the namespaces that exist for this operator, so that several
operators can share one cluster.
"""

import asyncio
import contextlib
import json
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import web
from e2e.control_plane.normalised_state import bare_name
from e2e.faults.plan import ANSWERS, KILLS, Fault, Plan

_OBJECT = re.compile(r"^/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/(?P<space>[^/]+))?/(?P<rest>.+)$")
_WRITES = {"POST", "PUT", "PATCH", "DELETE"}
_HOP = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding"}
_SPACE = re.compile(rb'"namespace":"([^"]+)"')
"""The namespace in a line of a watch. The first match is the namespace of the object itself."""
_BOOKMARK = b'{"type":"BOOKMARK"'
_ASIDE = ("leases", "events")
"""Kinds that the operator writes in addition, and on which no state depends."""
_NEVER = 3600.0
_DIGEST = f"sha256:{'0' * 64}"


@dataclass
class Watches:
    """The faults of every watch. They apply from the next event on."""

    seconds: float | None = None
    """The proxy closes each watch after this time."""
    muted: bool = False
    """The watches stay open, but nothing arrives."""
    bookmarks_only: bool = False
    """The watches stay open, and only bookmarks arrive."""
    too_old: str = ""
    """`connect` or `stream`: the place where the API server reports that the resource version is too old."""


async def _nothing(_namespace: str, _name: str) -> None:
    return


class FaultProxy:
    def __init__(self, server: str, ca: Path, plan: Plan, *, sees: Callable[[str], bool] = lambda _: True) -> None:
        self._server = server
        self._ca = ca
        self._plan = plan
        self._sees = sees
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.held: set[asyncio.Task[Any]] = set()
        """Writes that are blocked until the operator ends."""
        self.arriving = 0
        """Writes that the proxy will block once the API server has executed them."""
        self.requests: Counter[str] = Counter()
        """The number of requests by verb.

        GET reads one object, LIST and WATCH read a kind, LEASE is any request for the Lease.
        """
        self.writes: Counter[tuple[str, str]] = Counter()
        """The number of executed writes by namespace and name of the write."""
        self.refused: list[str] = []
        """Requests that the API server answered with 403."""
        self.gate: Callable[[web.Request], Fault | None] = lambda _: None
        """A callback for every request, before anything else. It injects faults that do not belong to one write."""
        self.watches = Watches()
        self.listed: dict[str, bytes] = {}
        """The last response to every list, by path and query."""
        self.replayed: dict[str, bytes] = {}
        """Responses by path and query that replace those of the API server, as from a lagging server."""
        self.first: Callable[[str, str], Awaitable[None]] = _nothing
        """A callback with the namespace and name of each write. The proxy awaits it before it forwards the write."""
        self.heard: Callable[[web.Request, bytes], None] = lambda _request, _body: None
        """A callback for every write that the proxy forwards."""
        self.executed: Callable[[web.Request, bytes], None] = lambda _request, _body: None
        """A callback for every write that the API server has executed, even if the writer gets no response."""

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context(cafile=str(self._ca))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            read_bufsize=4 * 1024 * 1024,
        )
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Blocked requests must end when the operator closes the connection.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except aiohttp.ClientConnectionError:
            # The simulated API server is unavailable, so the proxy closes the connection too.
            return await self._fail(request, Fault.RESET)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        place = _OBJECT.match(request.path)
        space, rest = (place["space"] or "", place["rest"]) if place else ("", "")
        if fault := self.gate(request):
            return await self._fail(request, fault)
        if request.method in _WRITES and space and not rest.startswith(_ASIDE):
            return await self._write(request, space, rest)
        if rest.startswith("pods/") and rest.endswith("/log"):
            return web.Response(text=_probed(rest))
        if request.query.get("watch") == "true":
            self.requests["WATCH"] += 1
            return await self._watch(request, rest)
        verb = "LEASE" if rest.startswith("leases") else "LIST" if "/" not in rest else request.method
        self.requests[verb] += 1
        listing = bool(rest) and "/" not in rest
        return await self._read(request, filtered=listing and not space, listing=listing)

    async def _write(self, request: web.Request, space: str, rest: str) -> web.StreamResponse:
        name = write_name(request, rest)
        self.requests[request.method] += 1
        fault = self._plan.on_write(space, name)
        await self.first(space, name)
        if fault is None:
            self.heard(request, await request.read())
            return await self._read(request, filtered=False)
        return await self._fail(request, fault)

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault in ANSWERS:
            return _answer(ANSWERS[fault])
        if fault in KILLS:
            await self._hold(request, done=fault is Fault.KILLED_AFTER)
        elif fault is Fault.TIMEOUT:
            await self._read(request, filtered=False)
            await asyncio.sleep(_NEVER)  # the request ends when the operator closes the connection
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _hold(self, request: web.Request, *, done: bool) -> None:
        """Block until the operator closes the connection, as a killed operator does."""
        if done:
            self.arriving += 1
            try:
                await self._read(request, filtered=False)
            finally:
                self.arriving -= 1
        own = asyncio.current_task()
        assert own is not None
        self.held.add(own)
        try:
            await asyncio.sleep(_NEVER)
        finally:
            self.held.discard(own)

    async def _read(self, request: web.Request, *, filtered: bool, listing: bool = False) -> web.Response:
        async with self._forward(request, await request.read()) as answer:
            body = await answer.read()
        self._note(request, answer.status, body)
        if request.method in _WRITES and answer.status < 300:
            self._count_write(request)
            self.executed(request, await request.read())
        if filtered and answer.status == 200:
            body = self._visible(body)
        if listing:
            self.listed[request.path_qs] = body
            body = self.replayed.get(request.path_qs, body)
        kept = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
        return web.Response(status=answer.status, body=body, headers=kept)

    def _count_write(self, request: web.Request) -> None:
        place = _OBJECT.match(request.path)
        if place and place["space"] and not place["rest"].startswith(_ASIDE):
            self.writes[place["space"], write_name(request, place["rest"])] += 1

    def find_repeated_writes(self, most: int) -> list[str]:
        """Return a sentence for each write that was executed more often than `most` in one namespace."""
        return [
            f"{name} was written {number} times in {space}, and at most {most} were expected"
            for (space, name), number in self.writes.most_common()
            if number > most
        ]

    def _note(self, request: web.Request, status: int, body: bytes) -> None:
        if status == 403:
            self.refused.append(f"{request.method} {request.path_qs}: {body[:300]!r}")

    def _visible(self, body: bytes) -> bytes:
        listing = json.loads(body)
        if "items" not in listing:
            return body
        items = [item for item in listing["items"] or () if self._sees(item["metadata"].get("namespace", ""))]
        return json.dumps({**listing, "items": items}).encode()

    async def _watch(self, request: web.Request, rest: str) -> web.StreamResponse:
        view = rest + (" (metadata)" if "PartialObjectMetadata" in request.headers.get("Accept", "") else "")
        if self.watches.too_old == "connect":
            return _answer(410)
        response = web.StreamResponse()
        async with self._forward(request, b"") as answer:
            if answer.status != 200:
                body = await answer.read()
                self._note(request, answer.status, body)
                return web.Response(status=answer.status, body=body)
            # The watching client may disconnect at any time, and the API server may end the stream.
            with contextlib.suppress(ConnectionError, aiohttp.ClientError, TimeoutError):
                await response.prepare(request)
                async with asyncio.timeout(self.watches.seconds):
                    await self._pass_on(view, answer, response)
        return response

    async def _pass_on(self, view: str, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        if self.watches.too_old == "stream":
            gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old", "metadata": {}}}
            await response.write(json.dumps(gone).encode() + b"\n")
            return
        async for line in answer.content:
            if not self._withheld(line) and self._passes(view, line):
                await response.write(line)

    def _withheld(self, line: bytes) -> bool:
        return self.watches.muted or (self.watches.bookmarks_only and not line.startswith(_BOOKMARK))

    def _passes(self, view: str, line: bytes) -> bool:
        own = _SPACE.search(line)
        if own and not self._sees(own[1].decode()):
            return False
        event: dict[str, Any] = json.loads(line)
        metadata = event["object"].get("metadata", {})
        space = metadata.get("namespace", "")
        if event["type"] in {"BOOKMARK", "ERROR"}:
            return True
        if not self._sees(space):
            return False
        kind = view.partition(" ")[0]
        name = f"{event['type']} {view}/{bare_name(kind, metadata['name'])}"
        return not self._plan.on_event(space, name, metadata["resourceVersion"])

    @contextlib.asynccontextmanager
    async def _forward(self, request: web.Request, data: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"
        url = self._server + request.path_qs
        async with self._session.request(request.method, url, data=data or None, headers=headers) as answer:
            yield answer


def write_name(request: web.Request, rest: str) -> str:
    """Return the name of a write: `apply deployments/poet`, `merge pods/poet-*` or `apply agents/poet/status`."""
    kind, _, tail = rest.partition("/")
    name, _, subresource = tail.partition("/")
    verb = request.method.lower()
    if request.method == "PATCH":
        verb = "apply" if "apply-patch" in request.headers.get("Content-Type", "") else "merge"
    whole = f"{kind}/{bare_name(kind, name)}" if name else kind
    return f"{verb} {whole}" + (f"/{subresource}" if subresource else "")


def _probed(rest: str) -> str:
    """Return the log of a probe pod, because there is no kubelet that could provide it.

    It reports a server or a skill's files.
    """
    owner = rest.split("/")[1].partition("-")[0]
    server = {"serverInfo": {"name": owner, "version": "1", "protocolVersion": "2025-06-18"}, "tools": []}
    skill = {"digest": _DIGEST, "head": f"---\nname: {owner}\ndescription: Words.\n---", "files": ["SKILL.md"]}
    return json.dumps({**server, "toolsDigest": _DIGEST, **skill})


def _answer(status: int) -> web.Response:
    reasons = {409: "Conflict", 422: "Invalid", 429: "TooManyRequests", 503: "ServiceUnavailable", 504: "Timeout"}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "the sweep refuses this request",
        "reason": reasons.get(status, "InternalError"),
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json", headers=headers)
