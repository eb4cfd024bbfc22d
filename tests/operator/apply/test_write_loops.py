"""A write that repeats although nothing has changed is delayed, and the object says so."""

import pytest
from tests.operator.conftest import OperatorApi

from fleetwright_api import names
from fleetwright_kube.write_guard import BURST, MEMORY_SECONDS, REFILL_SECONDS


class StampingApi(OperatorApi):
    """An API server with an admission webhook that removes our hash, and stamps each object of a kind anew."""

    def __init__(self, kind):
        super().__init__()
        self.stamped = kind
        self._stamps = 0

    async def apply(self, resource, body, **more):
        if body["kind"] == self.stamped and "subresource" not in more:
            self._stamps += 1
            metadata = body["metadata"]
            body = {**body, "metadata": {**metadata, "annotations": {"stamp": str(self._stamps)}}}
        return await super().apply(resource, body, **more)


def count_writes(api, what):
    return sum(write.endswith(what) for write in api.writes)


@pytest.fixture
async def looping(objects, make_world):
    """An operator whose policies a webhook changes, once it has reported the loop."""
    api = StampingApi("NetworkPolicy")
    world = make_world(api)
    api.put(objects.agent())
    await world.start()
    await world.until(lambda: "WriteLoop" in world.conditions("Agent", "poet"))
    yield world
    await world.stop()


async def test_writes_that_a_webhook_undoes_are_delayed_and_named(looping):
    api = looping.api
    sent = count_writes(api, "NetworkPolicy poet")
    assert sent <= 2 + BURST, "the first write, the first repetitions, and none after them"
    status, reason, message = looping.conditions("Agent", "poet")["WriteLoop"]
    assert (status, reason) == ("True", "Repeated")
    assert "update NetworkPolicy poet" in message
    assert looping.manager.metrics.delayed_writes.labels(verb="update", kind="NetworkPolicy")._value.get() > 0

    api.edit(names.AGENT, "poet", {"spec": {"instructions": "Sing."}})
    await looping.until(lambda: count_writes(api, "NetworkPolicy poet") > sent)

    api.stamped = None
    looping.seconds += MEMORY_SECONDS
    looping.manager.queue.add((names.AGENT, "shop", "poet"))
    await looping.until(lambda: "WriteLoop" not in looping.conditions("Agent", "poet"))


async def test_delayed_write_is_sent_once_in_thirty_seconds(looping):
    before = count_writes(looping.api, "NetworkPolicy poet")
    looping.seconds += REFILL_SECONDS
    looping.manager.queue.add((names.AGENT, "shop", "poet"))
    await looping.until(lambda: count_writes(looping.api, "NetworkPolicy poet") == before + 1)
    looping.manager.queue.add((names.AGENT, "shop", "poet"))
    await looping.until(lambda: looping.manager.queue.depth == 0)
    assert count_writes(looping.api, "NetworkPolicy poet") == before + 1
    assert "WriteLoop" in looping.conditions("Agent", "poet")
