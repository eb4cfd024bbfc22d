"""Two operators of different releases serve one namespace at the same time, and each object has one manager."""

from tests.support.controlplane.administrator import object_head

OWN, SECOND = "fleetwright-system/fleetwright-operator", "fleetwright-system/second-operator"
_MOVED = "fleetwright.dev/installation"


def test_two_installations_in_one_namespace_do_not_fight(space, operator, another_operator):
    space.agent("poet")
    space.apply({**object_head("Skill", "haiku"), "spec": {"source": {"inline": {"files": _FILES}}}})
    space.wait("Agent", "poet", "Programmed", "True")
    space.wait("Skill", "haiku", "Ready", "True")
    assert space.get("Agent", "poet")["status"]["installation"] == OWN
    operator.wait_for_settled_writes()
    before = space.versions()

    second = another_operator("second", namespaces=[space.name], drainSeconds=99)
    second.start()
    try:
        elsewhere = f'fleetwright_objects_managed_elsewhere{{installation="{OWN}",kind="Agent"}}'
        space.eventually(lambda: second.metrics().get(elsewhere) == 1.0, "the second installation counts the agent")
        second.wait_for_settled_writes()
        assert space.versions() == before
        (event,) = space.eventually(lambda: _read_events(space), "an Event names both installations")
        assert OWN in event["message"]
        assert SECOND in event["message"]

        space.admin.merge("Agent", space.name, "poet", {"metadata": {"annotations": {_MOVED: SECOND}}})
        space.eventually(lambda: _grace(space) > 99, "the second installation writes the Deployment")
        # The status is the last write of a reconcile.
        space.eventually(
            lambda: space.get("Agent", "poet")["status"]["installation"] == SECOND, "the status names the installation"
        )
        operator.wait_for_settled_writes()
        second.wait_for_settled_writes()
        assert _grace(space) > 99
        space.eventually(lambda: len(_read_events(space)) == 2, "the first installation reports the second one, too")
    finally:
        assert second.stop() == 0


_FILES = {"SKILL.md": "---\nname: haiku\ndescription: Writes haiku.\n---\nThree lines.\n"}


def _grace(space) -> int:
    return space.get("Deployment", "poet")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


def _read_events(space) -> list:
    return [event for event in space.list_objects("Event") if event["reason"] == "ManagedElsewhere"]
