"""Where a watch continues after its stream has ended: with its last event, or with a list."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from tests.libs.kube.conftest import SCHEME, WIDGETS
from tests.support.waiting import await_until

from fleetwright_kube.cache import Cache
from fleetwright_kube.errors import ApiError, GoneError
from fleetwright_kube.informer import Informer
from fleetwright_kube.memory_api import MemoryApi
from fleetwright_kube.port import Listing, Object, Resource

BOOKMARK = ("BOOKMARK", {"metadata": {"resourceVersion": "70"}})


class OneStreamApi(MemoryApi):
    """An API whose first watch sends a bookmark and then ends with an error, or without one."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(SCHEME)
        self.error = error
        self.lists = 0
        self.versions: list[str] = []
        """The resource version of each watch."""

    async def list(
        self, resource: Resource, *, keep: Callable[[Object], Any], namespace: str | None = None
    ) -> Listing[Any]:
        self.lists += 1
        return Listing(items=[], resource_version=f"{self.lists}00")

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        self.versions.append(resource_version)
        if len(self.versions) > 1:
            await asyncio.Event().wait()
        yield BOOKMARK
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    ("error", "continues_at", "warnings"),
    [
        pytest.param(None, "70", 0, id="the server closes the stream"),
        pytest.param(aiohttp.SocketTimeoutError(), "70", 0, id="silence"),
        pytest.param(aiohttp.ClientPayloadError("cut"), "70", 1, id="a broken connection"),
        pytest.param(ConnectionResetError(), "70", 1, id="a reset connection"),
        pytest.param(GoneError("expired"), "200", 0, id="an expired version"),
        pytest.param(ApiError("too large resource version", code=504), "200", 1, id="an error of the server"),
    ],
)
async def test_watch_continues(error, continues_at, warnings, caplog):
    caplog.set_level(logging.DEBUG)
    api = OneStreamApi(error)
    informer = Informer(
        api, Cache(SCHEME, index_keys=lambda _: ()), namespaces=(), on_change=lambda _: None, pause=0.01
    )
    watching = asyncio.create_task(informer.watch_all([WIDGETS]))
    try:
        await await_until(lambda: len(api.versions) == 2, "a second watch")
    finally:
        watching.cancel()
    assert api.versions == ["100", continues_at]
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == warnings
