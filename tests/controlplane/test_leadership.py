"""One operator writes at a time, and its successor continues its work."""

import pytest


@pytest.fixture
def second(kubeconfig, operator):
    another = type(operator)(kubeconfig, kubeconfig.parent / "second.log", identity="second")
    another.start(wait=False)
    yield another
    if another.exit_code() is None:
        another.stop()


def test_standby_takes_over_when_the_leader_stops(space, operator, second):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    space.eventually(lambda: second._get("/readyz") == "ok", "the second is ready to take over")
    assert operator.leads()
    assert not second.leads()

    assert operator.stop() == 0
    try:
        second.wait_until_leading()
        space.agent("painter")
        space.wait("Agent", "painter", "Programmed", "True")
        assert second.stop() == 0
    finally:
        operator.start()


def test_leader_that_loses_its_lease_exits(space, operator, second, admin):
    path = "/apis/coordination.k8s.io/v1/namespaces/fleetwright-system/leases/fleetwright-operator"
    second.stop()
    taken = {"spec": {"holderIdentity": "a-thief", "leaseDurationSeconds": 1}}
    admin.request("PATCH", path, taken, "application/merge-patch+json")
    space.eventually(lambda: operator.exit_code() is not None, "the old leader ends")
    assert operator.exit_code() == 1
    operator.log.write_text("")  # the log ends with an expected error
    operator.start()
