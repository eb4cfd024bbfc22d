"""The guard delays writes that repeat although nothing has changed, and no other write."""

import pytest

from fleetwright_kube.cache import Change
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.write_guard import BURST, MEMORY_SECONDS, REFILL_SECONDS, Write, WriteGuard, WriteLoopError

POET = ("Agent", "shop", "poet")
PAINTER = ("Agent", "shop", "painter")
POLICY = ("NetworkPolicy", "shop", "poet-probe")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def delays():
    return []


@pytest.fixture
def guard(clock, delays):
    return WriteGuard(clock=clock, on_delay=lambda *write: delays.append(write))


def write(guard, *, key=POET, verb="create", target=POLICY, body=None):
    with guard.attribute_writes(key), guard.guard_write(verb, target, {"spec": {}} if body is None else body):
        pass


def write_until_delayed(guard, **more):
    """Return the number of writes that were sent."""
    for sent in range(100):
        try:
            write(guard, **more)
        except WriteLoopError:
            return sent
    raise AssertionError("100 writes were sent, and none was delayed")


def entry(kind="Secret", **fields):
    return CachedObject(kind=kind, namespace="shop", name="key", uid="u", resource_version="1", **fields)


def test_eleventh_repetition_waits_for_the_bucket(guard, clock, delays):
    assert write_until_delayed(guard) == 1 + BURST
    assert delays == [("create", "NetworkPolicy")]
    with pytest.raises(WriteLoopError, match="create NetworkPolicy poet-probe repeats") as delayed:
        write(guard)
    assert delayed.value.seconds == REFILL_SECONDS
    clock.now += REFILL_SECONDS
    assert write_until_delayed(guard) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"verb": "delete"}, id="another verb"),
        pytest.param({"target": ("NetworkPolicy", "shop", "another")}, id="another object"),
        pytest.param({"body": {"spec": {"podSelector": {}}}}, id="another body"),
        pytest.param({"key": PAINTER}, id="the reconcile of another object"),
    ],
)
def test_write_that_differs_is_not_delayed(guard, change):
    write_until_delayed(guard)
    write(guard, **change)


def test_bodies_that_alternate_are_repetitions(guard):
    for number in range(2 + BURST):
        write(guard, body={"spec": number % 2})
    with pytest.raises(WriteLoopError):
        write(guard, body={"spec": 0})


def test_bodies_that_differ_in_their_times_are_repetitions(guard):
    for second in range(1 + BURST):
        write(guard, body={"lastTransitionTime": f"2026-03-01T12:00:{second:02}Z"})
    with pytest.raises(WriteLoopError):
        write(guard, body={"lastTransitionTime": "2026-03-01T13:00:00Z"})


@pytest.mark.parametrize(
    ("before", "after", "is_new_cause"),
    [
        pytest.param(entry(generation=1), entry(generation=2), True, id="another generation"),
        pytest.param(entry(), entry(annotations={"fleetwright.dev/wake": "now"}), True, id="an annotation"),
        pytest.param(entry(owned={"f:spec": {}}), entry(), True, id="fields that somebody took"),
        pytest.param(entry(projection={"data": "a"}), entry(projection={"data": "b"}), True, id="a value"),
        pytest.param(entry(), None, True, id="deleted by somebody"),
        pytest.param(None, entry(), True, id="created by somebody"),
        pytest.param(entry("Pod"), entry("Pod", deleting=True), True, id="a pod that somebody deletes"),
        pytest.param(entry(projection={"status": 1}), entry(projection={"status": 2}), False, id="a status"),
        pytest.param(entry("Pod"), entry("Pod", labels={"a": "b"}), False, id="the start of a pod"),
        pytest.param(None, entry("Pod"), False, id="a pod that its owner creates"),
        pytest.param(entry("Pod", deleting=True), None, False, id="the end of an object that was being deleted"),
    ],
)
def test_changes_by_others_are_new_causes(guard, before, after, is_new_cause):
    write_until_delayed(guard)
    guard.note_change(POET, Change(before, after))
    if is_new_cause:
        assert write_until_delayed(guard) == 1 + BURST
    else:
        assert write_until_delayed(guard) == 0


def test_write_of_a_status_also_follows_the_status_of_others(guard):
    write_until_delayed(guard, verb="status", target=POET)
    guard.note_change(POET, Change(entry(projection={"status": 1}), entry(projection={"status": 2})))
    write(guard, verb="status", target=POET)
    write_until_delayed(guard, verb="status", target=POET)
    guard.note_observation(POET)
    write(guard, verb="status", target=POET)


def test_own_writes_are_causes_for_others_only(guard):
    write_until_delayed(guard)
    write_until_delayed(guard, key=PAINTER, target=("Secret", "shop", "painter"))
    with guard.attribute_writes(POET):
        guard.note_own_change(POET)
        guard.note_own_change(PAINTER)
    assert write_until_delayed(guard) == 0
    write(guard, key=PAINTER, target=("Secret", "shop", "painter"))


def test_event_that_precedes_the_response_is_an_own_write(guard):
    for _ in range(1 + BURST):
        with guard.attribute_writes(POET), guard.guard_write("update", ("Secret", "shop", "key"), {}) as sent:
            guard.note_change(POET, Change(entry(generation=1), entry(generation=2)))
            sent.version = "1"
    with pytest.raises(WriteLoopError):
        write(guard, verb="update", target=("Secret", "shop", "key"), body={})


def test_failed_writes_do_not_count(guard):
    for _ in range(50):
        with (
            pytest.raises(TimeoutError),
            guard.attribute_writes(POET),
            guard.guard_write("create", POLICY, {"spec": {}}),
        ):
            raise TimeoutError
    assert write_until_delayed(guard) == 1 + BURST


def test_write_outside_of_a_reconcile_is_never_delayed(guard):
    for _ in range(50):
        with guard.guard_write("create", POLICY, {}):
            pass


def test_delayed_writes_are_listed_until_there_is_a_new_cause(guard):
    assert guard.list_delayed(POET) == []
    write_until_delayed(guard)
    assert [str(each) for each in guard.list_delayed(POET)] == ["create NetworkPolicy poet-probe"]
    assert guard.list_delayed(PAINTER) == []
    guard.note_cause(POET)
    assert guard.list_delayed(POET) == []


def test_writes_are_forgotten_when_the_bucket_is_full_again(guard, clock):
    write_until_delayed(guard)
    clock.now += MEMORY_SECONDS + 1
    assert guard.list_delayed(POET) == []
    assert write_until_delayed(guard) == 1 + BURST


def test_object_that_is_created_anew_has_no_earlier_writes(guard):
    for _ in range(2 * BURST):
        write(guard)
        guard.forget(POET)
    assert guard.list_delayed(POET) == []
    assert write_until_delayed(guard) == 1 + BURST


def test_object_may_be_deleted_while_it_is_written(guard, clock):
    write(guard, target=("Deployment", "shop", "poet"))
    with guard.attribute_writes(POET), guard.guard_write("create", POLICY, {}):
        guard.forget(POET)
    assert list(guard._histories) == [(POET, Write("create", POLICY))]
    clock.now += MEMORY_SECONDS + 1
    write(guard, key=PAINTER)
    assert [key for key, _ in guard._histories] == list(guard._causes) == [PAINTER]


def test_loop_is_logged_once(guard, caplog):
    write_until_delayed(guard)
    write_until_delayed(guard)
    assert [record.write for record in caplog.records] == ["create NetworkPolicy poet-probe"]


def test_change_by_others_during_a_write_is_a_new_cause(guard):
    for _ in range(50):
        with guard.attribute_writes(POET), guard.guard_write("update", ("Secret", "shop", "key"), {}) as sent:
            guard.note_change(POET, Change(entry(generation=1), entry(generation=2)))
            sent.version = "2"


def test_guard_keeps_nothing_about_objects_that_were_not_written_lately(guard, clock):
    for number in range(100):
        write(guard, key=("Approval", "shop", f"clerk-{number}"))
    clock.now += MEMORY_SECONDS + 1
    write(guard)
    guard.note_cause(("Approval", "shop", "clerk-1"))
    assert list(guard._causes) == [POET]
    assert [key for key, _ in guard._histories] == [POET]
