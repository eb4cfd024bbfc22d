"""The changes that cause an Event. Events never delay a reconcile."""

import asyncio

import pytest
from tests.support.waiting import await_until

from fleetwright_kube.errors import ApiError
from fleetwright_kube.event_recorder import EventRecorder
from fleetwright_operator.status.events import event_manifest, notices

ABOUT = {"kind": "Agent", "namespace": "shop", "name": "poet", "uid": "u"}

UNSAID = {"PriceUnknown", "WindowUnknown"}
"""The reasons of a model about which a test knows only its name."""


def condition(kind, status, reason, message=""):
    return {"type": kind, "status": status, "reason": reason, "message": message}


VALID = condition("Accepted", "True", "Valid")
MISSING = condition("ReferencesResolved", "False", "SecretNotFound", "Secret 'key' does not exist")
RESOLVED = condition("ReferencesResolved", "True", "Resolved")
BLOCKED = condition("Programmed", "False", "Blocked", "blocked by ReferencesResolved")
ROLLING = condition("Available", "False", "RollingOut", "waiting for the pod to be ready")
CRASHING = condition("Available", "False", "CrashLoop", "the container ended")
NOT_READY = condition("Ready", "False", "SecretNotFound", "Secret 'key' does not exist")
READY = condition("Ready", "True", "Ready")
DEGRADED = condition("Degraded", "True", "McpServerUnreachable", "no connection")

TRANSITIONS = [
    pytest.param([], [VALID, RESOLVED], [], id="a good beginning is no news"),
    pytest.param([], [READY], [("Ready", False, "Ready")], id="ready is"),
    pytest.param(
        [VALID],
        [VALID, MISSING, BLOCKED, NOT_READY],
        [("ReferencesResolved", True, "SecretNotFound")],
        id="the cause once",
    ),
    pytest.param([MISSING], [RESOLVED], [("ReferencesResolved", False, "Resolved")], id="it came right again"),
    pytest.param([BLOCKED], [condition("Programmed", "True", "Written")], [], id="what only waited did not come right"),
    pytest.param([ROLLING], [CRASHING], [("Available", True, "CrashLoop")], id="another cause"),
    pytest.param([CRASHING], [CRASHING], [], id="nothing new"),
    pytest.param([], [DEGRADED], [("Degraded", True, "McpServerUnreachable")], id="something is missing"),
    pytest.param([DEGRADED], [], [("Degraded", False, "DegradedEnded")], id="nothing is missing any more"),
]


@pytest.mark.parametrize(("before", "after", "wanted"), TRANSITIONS)
def test_notices_reports_only_relevant_transitions(before, after, wanted):
    assert [(notice.condition, notice.warning, notice.reason) for notice in notices(before, after)] == wanted


def event(before=(), after=(CRASHING,)):
    (notice,) = notices(before, after)
    return event_manifest(notice, ABOUT, now="2026-03-01T12:00:00Z")


def test_event_name_depends_on_its_reason():
    assert event()["metadata"] == event()["metadata"]
    other = event(after=[condition("Available", "False", "ImagePull", "no image")])
    assert other["metadata"]["name"] != event()["metadata"]["name"]
    assert event()["type"] == "Warning"
    assert event(after=[READY])["type"] == "Normal"


@pytest.fixture
async def event_recorder(api):
    event_recorder = EventRecorder(api, on_write=lambda verb, kind: None, pause=0.0, waiting=3)
    running = asyncio.create_task(event_recorder.run())
    yield event_recorder
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def heard(api, count):
    await await_until(lambda: len(api.writes) >= count, f"{count} events are written", shown=lambda: api.writes)


async def test_event_count_continues_after_a_restart(api, event_recorder):
    for _ in range(3):
        event_recorder.record(event())
    await heard(api, 3)
    (kept,) = api.all("Event")
    assert kept["count"] == 3

    second = EventRecorder(api, on_write=lambda verb, kind: None, pause=0.0)
    running = asyncio.create_task(second.run())
    second.record(event())
    await heard(api, 5)
    running.cancel()
    assert [kept["count"] for kept in api.all("Event")] == [4]
    assert api.gets == [], "the chart gives no right to read Events"


async def test_event_count_restarts_after_expiry(api, event_recorder):
    event_recorder.record(event())
    event_recorder.record(event())
    await heard(api, 2)
    api.remove("Event", event()["metadata"]["name"])
    event_recorder.record(event())
    await heard(api, 3)
    assert [kept["count"] for kept in api.all("Event")] == [1]
    event_recorder.record(event())
    await heard(api, 4)
    assert [kept["count"] for kept in api.all("Event")] == [2]


async def test_event_recorder_drops_a_failed_event_and_continues(api, event_recorder):
    api.fault = lambda number, what: ApiError("no", code=503) if number == 0 else None
    event_recorder.record(event())
    event_recorder.record(event(after=[READY]))
    await heard(api, 2)
    assert [kept["reason"] for kept in api.all("Event")] == ["Ready"]


async def test_event_recorder_drops_a_flood_without_blocking(api):
    event_recorder = EventRecorder(api, on_write=lambda verb, kind: None, waiting=2)
    for _ in range(10):
        event_recorder.record(event())
    assert api.writes == []


PROGRESS = [
    pytest.param(ROLLING, id="a rollout"),
    pytest.param(condition("Programmed", "False", "Preflight", "is being tried"), id="a preflight"),
    pytest.param(condition("ReferencesResolved", "False", "SkillPending", "is being read"), id="a Skill that is read"),
    pytest.param(condition("ReferencesResolved", "False", "McpServerPending", "not looked at"), id="a server's tools"),
    pytest.param(condition("Available", "False", "Suspended", "no pod runs"), id="what the spec asks for"),
    pytest.param(condition("Available", "Unknown", "NotObserved", "not seen yet"), id="what was not seen yet"),
]


@pytest.mark.parametrize("step", PROGRESS)
def test_notices_ignore_progress_and_its_completion(step):
    done = condition(step["type"], "True", "Done")
    assert (list(notices([], [step])), list(notices([step], [done]))) == ([], [])


def _told(api) -> list[tuple[str, str]]:
    return [(event["type"], event["reason"]) for event in api.all("Event")]


async def test_reconcile_writes_events_for_failure_and_recovery(world, api, objects):
    api.put(objects.agent("poet", peers=[{"name": "helper"}]))
    await world.start()
    world.tell_events()
    await world.until(lambda: ("Warning", "PeerNotFound") in _told(api))
    api.put(objects.agent("helper"))
    await world.until(lambda: ("Normal", "Resolved") in _told(api))


async def test_warning_event_is_skipped_if_resolved_in_time(world, api, objects):
    api.put(objects.agent("poet", skills=[{"name": "haiku"}]))
    await world.start()
    world.tell_events()
    await world.until(lambda: world.conditions("Agent", "poet").get("ReferencesResolved", ("",))[0] == "False")
    api.put(objects.skill())
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][0] == "True")
    api.roll_out("poet")
    await world.until(lambda: ("Normal", "Ready") in _told(api))
    await asyncio.sleep(0.3)
    agents = [event for event in api.all("Event") if event["involvedObject"]["kind"] == "Agent"]
    assert [(event["type"], event["reason"]) for event in agents if event["reason"] not in UNSAID] == [
        ("Normal", "Ready")
    ]
