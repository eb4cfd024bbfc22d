"""The cache of the gateway: what it needs before it serves, and what it keeps."""

import asyncio
import json

import pytest
from tests.support.gateway.fleet_api import FleetApi

from fleetwright_api import names
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_kube.errors import ApiError, ForbiddenError


class Refusing(FleetApi):
    """An API server that answers lists of some kinds with an error."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: dict[str, Exception] = {}

    async def list(self, resource, *, keep, namespace=None):
        if error := self.refused.get(resource.kind):
            raise error
        return await super().list(resource, keep=keep, namespace=namespace)


@pytest.fixture
def api() -> Refusing:
    return Refusing()


def synchroniser(api: FleetApi, fleet: Fleet) -> Synchroniser:
    return Synchroniser(api, fleet, namespaces=(), resync_seconds=60)


async def test_cache_is_complete_after_all_lists(api):
    api.add_running_agent("callee")
    fleet = Fleet()
    found = synchroniser(api, fleet)
    assert found.problem == "the cache of agents is not filled yet"
    assert await found.fill()
    assert (found.problem, set(fleet.agents)) == ("", {("team", "callee")})


@pytest.mark.parametrize(
    ("kind", "complete", "problem"),
    [
        ("Pod", False, "no permission to list Pod; grant it to the gateway"),
        ("ReplicaSetMetadata", False, "no permission to list ReplicaSet; grant it to the gateway"),
        ("NamespaceMetadata", True, ""),
    ],
)
async def test_cache_names_the_missing_permission(api, kind, complete, problem):
    """Labels of namespaces are optional: without them, no label selector matches."""
    api.refused[kind] = ForbiddenError("no")
    found = synchroniser(api, Fleet())
    assert await found.fill() is complete
    assert found.problem == problem


async def test_cache_is_filled_again_until_it_is_complete(api):
    api.refused["Pod"] = ApiError("down", code=503)
    found = synchroniser(api, Fleet())
    calls: list[str] = []
    running = asyncio.create_task(found.run(on_filled=lambda: calls.append(found.problem)))
    await asyncio.sleep(5)
    assert found.problem
    assert calls == []
    api.refused.clear()
    await asyncio.sleep(200)
    assert not found.problem
    assert calls == [""]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_cache_finds_changes_that_a_watch_missed(api):
    fleet = Fleet()
    found = synchroniser(api, fleet)
    running = asyncio.create_task(found.run())
    await asyncio.sleep(1)
    api.add_agent("late")
    await asyncio.sleep(59)
    assert ("team", "late") not in fleet.agents
    await asyncio.sleep(2)
    assert ("team", "late") in fleet.agents
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_cache_keeps_no_configuration_of_agents(api):
    """The cache keeps the cards of ConfigMaps only, and a card counts only if it belongs to the agent."""
    fleet = Fleet()
    api.add_agent("callee")
    api.add_card("callee", {"name": "callee"})
    head = {"namespace": "team", "labels": {names.MANAGED_BY: names.FIELD_MANAGER}}
    api.put({"kind": "ConfigMap", "metadata": {**head, "name": "other"}, "data": {"agent.json": '{"secret": 1}'}})
    api.put(
        {
            "kind": "ConfigMap",
            "metadata": {**head, "name": "fake-card"},
            "data": {names.CARD_KEY: json.dumps({"name": "x"})},
        }
    )
    api.add_agent("fake")
    assert await synchroniser(api, fleet).fill()
    assert [entry.projection for entry in fleet.cache.all("ConfigMap") if entry.name == "other"] == [{}]
    assert fleet.card_of(fleet.agents["team", "callee"]) == {"name": "callee"}
    assert fleet.card_of(fleet.agents["team", "fake"]) is None
