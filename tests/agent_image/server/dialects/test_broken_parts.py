"""Internal errors: the caller gets an error in its own dialect, without internal details."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Task
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.authentication import CallerUser
from fleetwright_a2a.bindings.calls import RpcDispatcher
from fleetwright_a2a.bindings.jsonrpc import JsonRpc
from fleetwright_a2a.bindings.rest import rest_routes
from fleetwright_a2a.dialects.dialect import Dialect, Operation
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10

GET = {"id": "t"}


def broken(*_: Any) -> Any:
    raise RuntimeError("SELECT secret FROM /var/lib")


class Handler:
    """A handler that answers, and whose stream breaks after its first event."""

    async def on_get_task(self, *_: Any) -> Task:
        return Task(id="t", context_id="c")

    async def on_subscribe_to_task(self, *_: Any) -> AsyncIterator[Task]:
        yield Task(id="t", context_id="c")
        broken()


def door(dialect: Dialect) -> ASGIApp:
    async def is_chosen(*_: Any) -> bool:
        return False

    handler = Handler()
    calls = RpcDispatcher(
        handler,  # type: ignore[arg-type] # it has two operations
        admission=lambda _: None,
        spoken=frozenset(),
        card=lambda: None,
        keepalive=15.0,
    )
    rpc = JsonRpc(calls, [dialect], has_chosen_id=is_chosen)
    over_rest = [] if dialect.version == "0.1" else [dialect]
    app = Starlette(routes=[Route("/a2a", rpc, methods=["POST"]), *rest_routes(calls, over_rest)])

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "user": CallerUser("client:default")}, receive, send)

    return known


Break = Callable[[Dialect], Dialect]
BREAKS = [
    pytest.param(lambda d: replace(d, reads={**d.reads, Operation.GET: broken}), id="reading"),
    pytest.param(lambda d: replace(d, writes={**d.writes, Operation.GET: broken}), id="writing"),
]


@pytest.mark.parametrize("dialect", [pytest.param(each, id=each.version) for each in (V10, V03, V01)])
@pytest.mark.parametrize("breaks", BREAKS)
async def test_dialect_internal_error_is_reported_without_details(
    dialect: Dialect, breaks: Break, caplog: pytest.LogCaptureFixture
) -> None:
    method = next(name for name, operation in dialect.methods.items() if operation is Operation.GET)
    transport = httpx.ASGITransport(app=door(breaks(dialect)))
    async with httpx.AsyncClient(transport=transport, base_url="http://a", headers=stating(dialect)) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": GET}
        over_rpc = await http.post("/a2a", json=body)
        over_rest = await http.get("/a2a/tasks/t")
    assert (over_rpc.status_code, over_rpc.json()["error"]["code"]) == (200, -32603)
    assert over_rest.json()["error"]["code"] == (500 if dialect is not V01 else 400)
    assert "SELECT" not in over_rpc.text + over_rest.text
    assert "SELECT secret" in caplog.text


@pytest.mark.parametrize("dialect", [pytest.param(each, id=each.version) for each in (V10, V03, V01)])
async def test_dialect_stream_failure_ends_with_an_error(dialect: Dialect) -> None:
    method = next(name for name, operation in dialect.methods.items() if operation is Operation.SUBSCRIBE)
    transport = httpx.ASGITransport(app=door(dialect))
    async with httpx.AsyncClient(transport=transport, base_url="http://a", headers=stating(dialect)) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": GET}
        told = (await http.post("/a2a", json=body)).text
    assert '"code": -32603' in told.splitlines()[-2]
    assert ("event: error" in told) == (dialect is V10)
    assert "SELECT" not in told


def stating(dialect: Dialect) -> dict[str, str]:
    return {"A2A-Version": dialect.version}
