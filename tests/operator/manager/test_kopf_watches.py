"""kopf runs in a thread: its events reach the cache, and its end touches no other task of the process."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.operator.conftest import OperatorApi, World, agent
from tests.support.waiting import await_until

from fleetwright_api import names
from fleetwright_operator.manager.kopf_watches import watch_with_kopf
from fleetwright_operator.settings import Settings

_GROUP = f"/apis/{names.GROUP}/{names.VERSION}"
_KINDS = {"agents": names.AGENT, "skills": names.SKILL, "mcpservers": names.MCP_SERVER}


class Stub:
    """An API server with three kinds. While `refused`, it answers every list with 422, which kopf does not retry."""

    def __init__(self) -> None:
        self.refused = False
        self.lists = 0
        self.items: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/api":
            return web.json_response({"versions": ["v1"]})
        if request.path == "/api/v1":  # kopf waits until these are served
            return web.json_response({"resources": [_served("namespaces", "Namespace"), _served("events", "Event")]})
        if request.path == "/apis":
            version = {"groupVersion": f"{names.GROUP}/{names.VERSION}", "version": names.VERSION}
            group = {"name": names.GROUP, "versions": [version], "preferredVersion": version}
            return web.json_response({"groups": [group]})
        if request.path == _GROUP:
            return web.json_response({"resources": [_served(*kind) for kind in _KINDS.items()]})
        if "watch" in request.query:
            await asyncio.sleep(0.5)  # kopf opens the next watch when one ends
            return web.Response(text="")
        self.lists += 1
        if self.refused:
            return web.json_response({"kind": "Status", "code": 422, "message": "no"}, status=422)
        items = self.items if request.path.endswith("/agents") else []
        return web.json_response({"metadata": {"resourceVersion": "9"}, "items": items})


def _served(plural: str, kind: str) -> dict[str, Any]:
    verbs = ["get", "list", "watch", "patch"]
    return {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": True, "verbs": verbs}


@pytest.fixture
async def stub(process_ring: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stub]:
    stub, app = Stub(), web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    async with TestServer(app) as server:
        cluster = {"name": "c", "cluster": {"server": str(server.make_url("")).rstrip("/")}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        user = {"name": "u", "user": {"token": "t"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield stub


@contextlib.asynccontextmanager
async def watching(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(watch_with_kopf(world.manager.cache_sync, world.manager.settings, set()))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_kopf_events_reach_the_cache(stub: Stub) -> None:
    stub.items = [{**agent("poet"), "metadata": {**agent("poet")["metadata"], "resourceVersion": "7"}}]
    world, before = World(OperatorApi(), Settings()), threading.active_count()
    async with watching(world):
        await await_until(lambda: world.manager.cache.get(names.AGENT, "shop", "poet"), "the cache has the agent")
    await await_until(
        lambda: threading.active_count() <= before + 1, "the threads of kopf end", shown=threading.enumerate
    )  # the loop keeps one idle thread of its own


async def test_kopf_restarts_after_a_failure_and_cancels_no_task(stub: Stub, caplog: pytest.LogCaptureFixture) -> None:
    stub.refused = True
    async with watching(World(OperatorApi(), Settings())):
        await await_until(lambda: stub.lists, "kopf lists the objects")
        unrelated = asyncio.create_task(asyncio.sleep(60))
        await await_until(lambda: "watches failed" in caplog.text, "the failure is logged", shown=lambda: caplog.text)
        seen = stub.lists
        await await_until(lambda: stub.lists > seen, "kopf lists the objects again")
        assert not unrelated.done()
        unrelated.cancel()
