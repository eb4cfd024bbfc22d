"""Changes between the operator's own list and kopf's list, which kopf does not report."""

import asyncio
from collections.abc import AsyncIterator

from tests.operator.conftest import OperatorApi, World, agent
from tests.support.waiting import await_until

from fleetwright_api import names
from fleetwright_kube.port import Object, Resource
from fleetwright_operator.kinds.resources import RESOURCES
from fleetwright_operator.observe.index_keys import OWN_KINDS
from fleetwright_operator.settings import Settings


class Watched(OperatorApi):
    """An in-memory API whose watches report only changes after their first version."""

    def __init__(self) -> None:
        super().__init__()
        self.since: dict[str, int] = {}
        self.news: asyncio.Queue[tuple[str, str, Object]] = asyncio.Queue()
        self.listeners.append(lambda *told: self.news.put_nowait(told))

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        self.since[resource.kind] = int(resource_version)
        while resource.kind == names.AGENT:
            event, kind, body = await self.news.get()
            if kind == names.AGENT and int(body["metadata"]["resourceVersion"]) > int(resource_version):
                yield event, body
        await asyncio.Event().wait()


async def test_cache_notices_an_agent_deleted_between_two_lists():
    api = Watched()
    api.put(agent("poet"))
    world = World(api, Settings())
    await world.manager.cache_sync.synchronise()
    assert world.manager.cache.get(names.AGENT, "shop", "poet")
    api.remove(names.AGENT, "poet")

    bridging = asyncio.create_task(world.manager.cache_sync.bridge([RESOURCES[kind] for kind in OWN_KINDS]))
    await await_until(
        lambda: not world.manager.cache.get(names.AGENT, "shop", "poet"), "the cache forgets the deleted agent"
    )
    assert set(OWN_KINDS) <= api.since.keys()
    bridging.cancel()
    await asyncio.gather(bridging, return_exceptions=True)
