"""The writes of the children of one object run concurrently. A failed write does not cancel the others."""

import asyncio

from tests.operator.conftest import OperatorApi

from fleetwright_api import names
from fleetwright_kube.errors import ApiError


class SlowApi(OperatorApi):
    """Answers each write one iteration of the event loop later, and counts the concurrent writes."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[str] = []
        self.together: list[set[str]] = []

    async def apply(self, resource, body, *, subresource=""):
        self.under_way.append(body["kind"])
        self.together.append(set(self.under_way))
        await asyncio.sleep(0)
        try:
            return await super().apply(resource, body, subresource=subresource)
        finally:
            self.under_way.remove(body["kind"])


async def test_child_writer_applies_independent_children_together(make_world, objects):
    api = SlowApi()
    api.put(objects.agent())
    world = make_world(api)
    await world.start()
    await world.settle()
    await world.stop()
    mounted = {"ServiceAccount", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim"}
    assert any(mounted <= kinds for kinds in api.together)
    assert any({"Service", "Deployment"} <= kinds for kinds in api.together)
    assert not [kinds for kinds in api.together if "Deployment" in kinds and kinds & mounted]
    assert not [kinds for kinds in api.together if "Agent" in kinds and len(kinds) > 1], "the status comes last"


async def test_child_writer_failure_does_not_skip_other_children(make_world, objects):
    api = SlowApi()
    failed: list[str] = []

    def fault(number: int, what: str) -> Exception | None:
        if what == "apply ServiceAccount poet" and not failed:
            failed.append(what)
            return ApiError("broken", code=500)
        return None

    api.fault = fault
    api.put(objects.agent())
    world = make_world(api)
    await world.start()
    await world.settle()
    await world.stop()
    assert failed
    assert sorted(api.writes) == sorted([*set(api.writes), "apply ServiceAccount poet"])
    assert api.gets == [], "the writer keeps every answer"


async def test_child_writer_retries_one_child_at_a_time(make_world, objects):
    api = SlowApi()
    refused: list[str] = []

    def fault(number: int, what: str) -> Exception | None:
        if len(refused) < 9 and " poet" in what and not what.startswith("apply Agent"):
            refused.append(what)
            return ApiError("broken", code=500)
        return None

    api.fault = fault
    api.put(objects.agent())
    world = make_world(api)
    await world.start()
    await world.settle()
    await world.stop()
    assert len(refused) == 9
    tried = [what.split()[1] for what in refused]
    assert len(set(tried[:5])) == 5, "the first pass tries all independent children"
    assert len(set(tried[-2:])) == 1, "each later pass retries only the first child"


async def test_child_that_stays_in_deletion_is_named_with_its_finalizers(api, objects, world):
    """A claim that a finalizer holds blocks a new spec, and the status says so instead of staying Ready."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    held = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": ["kubernetes.io/pvc-protection"]}
    api.edit("PersistentVolumeClaim", "poet-memory", {"metadata": held})
    waiting = world.manager.metrics.reconciles.labels(kind=names.AGENT, outcome="waiting")
    await world.until(lambda: waiting._value.get() > 0)
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True", "a deletion usually ends within seconds"

    world.seconds += 5
    api.edit(names.AGENT, "poet", {"spec": {"instructions": "Sing."}})
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][0] == "False")
    _, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert reason == "Terminating"
    assert "PersistentVolumeClaim 'poet-memory' is being deleted and waits for kubernetes.io/pvc-protection" in message
    assert api.find(names.AGENT, "poet")["status"]["observedGeneration"] == 2

    api.remove("PersistentVolumeClaim", "poet-memory")
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][0] == "True")
