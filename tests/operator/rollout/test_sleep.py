"""When an agent goes to sleep and when it wakes: a table over the report, the annotation and the revision."""

from dataclasses import replace

import pytest

from fleetwright_api.activity import Activity, parse_activity
from fleetwright_api.spec.agent import parse_agent
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.rollout.sleep import SleepState, next_state, next_step_after, stored_state

NOW = 10_000
WAKE = "fleetwright.dev/wake"


def spec(**more):
    fields = {"model": {"name": "m"}, "sleep": {"afterIdle": "15m"}, **more}
    return parse_agent({"metadata": {"name": "a", "namespace": "n"}, "spec": fields}).spec


def activity(*, idle=900, own=None, busy=False, scraped=None, wakes_at=None, read_at=NOW):
    return Activity(
        running_tasks=int(busy),
        last_active=read_at - idle,
        last_own_active=None if own is None else read_at - own,
        scraped_at=scraped,
        wakes_at=wakes_at,
        read_at=read_at,
    )


def decide(
    state,
    *,
    of=None,
    pod=True,
    gateway=True,
    annotation="",
    rolled_out=True,
    new_revision=False,
    report=None,
    ending=None,
    decision=False,
    listed=True,
):
    return next_state(
        of or spec(),
        state,
        has_pod=pod,
        has_gateway=gateway,
        annotations={WAKE: annotation} if annotation else {},
        is_rolled_out=rolled_out,
        has_new_revision=new_revision,
        activity=report,
        ending=ending,
        has_decision=decision,
        shows_questions=listed,
        now=NOW,
    )


IDLE = activity()
ASLEEP = SleepState(since=9_000, request="first")


@pytest.mark.parametrize(
    ("changes", "sleeps"),
    [
        pytest.param({"report": IDLE}, True, id="idle for long enough"),
        pytest.param({"report": activity(read_at=NOW - 15)}, True, id="a report of fifteen seconds ago"),
        pytest.param({"report": activity(read_at=NOW - 16)}, False, id="a report that is too old"),
        pytest.param({"report": activity(idle=899)}, False, id="idle for a second less"),
        pytest.param({"report": None}, False, id="no report of the current pod"),
        pytest.param({"report": activity(busy=True)}, False, id="a task runs"),
        pytest.param({"report": IDLE, "listed": False}, False, id="its questions are not known yet"),
        pytest.param({"report": IDLE, "rolled_out": False}, False, id="the pod is not ready"),
        pytest.param({"report": IDLE, "new_revision": True}, False, id="another revision is wanted"),
        pytest.param({"report": IDLE, "gateway": False}, False, id="no gateway could wake it"),
        pytest.param({"report": IDLE, "of": spec(sleep=None)}, False, id="the spec has no sleep"),
        pytest.param({"report": IDLE, "of": spec(suspend=True)}, False, id="suspended"),
        pytest.param({"report": activity(wakes_at=NOW)}, False, id="own work is due now"),
        pytest.param({"report": activity(wakes_at=NOW + 1)}, True, id="own work is due later"),
        pytest.param({"report": activity(idle=5_000, read_at=NOW)}, True, id="not scraped for two minutes"),
        pytest.param({"report": activity(own=5, scraped=NOW - 4)}, True, id="an own task was scraped"),
        pytest.param({"report": activity(own=5, scraped=NOW - 6)}, False, id="an own task was not scraped"),
        pytest.param({"report": activity(own=5, scraped=NOW - 120)}, True, id="own tasks, no scrape for two minutes"),
        pytest.param({"report": activity(own=5, scraped=NOW - 119)}, False, id="own tasks, a recent scrape"),
        pytest.param({"report": activity(own=5)}, True, id="own tasks, no scrape ever"),
        pytest.param({"report": activity(own=5, busy=True, scraped=NOW)}, False, id="an own task runs"),
        pytest.param(
            {"report": activity(idle=60), "of": spec(sleep={"afterIdle": "30s"})}, False, id="a scrape is awaited"
        ),
        pytest.param(
            {"report": activity(idle=60, scraped=NOW - 10), "of": spec(sleep={"afterIdle": "30s"})}, True,
            id="scraped since the last activity",
        ),
        pytest.param(
            {"report": activity(idle=60, scraped=NOW - 61), "of": spec(sleep={"afterIdle": "30s"})}, False,
            id="scraped before the last activity",
        ),
    ],
)  # fmt: skip
def test_awake_agent_sleeps_when_it_is_idle(changes, sleeps):
    state = decide(None, annotation="before", **changes)
    assert (state is not None) is sleeps
    if state is not None:
        assert (state.since, state.request) == (NOW, "before")


@pytest.mark.parametrize(
    ("state", "changes", "sleeps"),
    [
        pytest.param(ASLEEP, {"annotation": "first"}, True, id="nothing happened"),
        pytest.param(ASLEEP, {"annotation": "second"}, False, id="a request"),
        pytest.param(ASLEEP, {}, False, id="the annotation was removed"),
        pytest.param(ASLEEP, {"annotation": "first", "new_revision": True}, False, id="a new revision"),
        pytest.param(ASLEEP, {"annotation": "first", "gateway": False}, False, id="the gateway was removed"),
        pytest.param(ASLEEP, {"annotation": "first", "rolled_out": False, "report": None}, True, id="no pod"),
        pytest.param(
            ASLEEP, {"annotation": "first", "ending": activity(busy=True)}, False, id="the ending pod still works"
        ),
        pytest.param(
            ASLEEP, {"annotation": "first", "report": activity(busy=True)}, False, id="the pod works before it ends"
        ),
        pytest.param(
            ASLEEP, {"annotation": "first", "ending": activity(busy=True, read_at=8_999)}, True, id="an older report"
        ),
        pytest.param(ASLEEP, {"annotation": "first", "ending": IDLE}, True, id="the ending pod is idle"),
        pytest.param(SleepState(since=1, wakes_at=NOW), {}, False, id="own work is due"),
        pytest.param(SleepState(since=1, wakes_at=NOW + 1), {}, True, id="own work is not due yet"),
    ],
)
def test_sleeping_agent_wakes_for_a_reason(state, changes, sleeps):
    assert decide(state, pod=False, **changes) == (state if sleeps else None)


DECIDED = SleepState(since=NOW - 2, request="first", wakes_at=NOW + 50)
STILL = {"annotation": "first", "report": activity(read_at=NOW - 3, wakes_at=NOW + 50)}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        pytest.param({}, DECIDED, id="still idle"),
        pytest.param({"report": activity(wakes_at=NOW + 50)}, DECIDED, id="a newer report that is idle"),
        pytest.param(
            {"report": activity(wakes_at=NOW + 9)}, replace(DECIDED, wakes_at=NOW + 9), id="own work is due earlier"
        ),
        pytest.param({"report": activity()}, replace(DECIDED, wakes_at=None), id="no own work any more"),
        pytest.param({"report": activity(wakes_at=NOW)}, None, id="own work is due now"),
        pytest.param({"report": None}, None, id="no report since a restart of the operator"),
        pytest.param({"report": activity(read_at=NOW - 16)}, None, id="a report that is too old"),
        pytest.param({"report": activity(busy=True)}, None, id="a task runs"),
        pytest.param({"report": activity(busy=True, read_at=NOW - 3)}, None, id="a task ran before the decision"),
        pytest.param({"report": activity(idle=1)}, None, id="a task ended"),
        pytest.param({"report": activity(own=1, scraped=NOW - 9)}, None, id="an own task ended, and was not scraped"),
        pytest.param(
            {"report": activity(own=1, scraped=NOW - 1, wakes_at=NOW + 50)}, DECIDED, id="an own task was scraped"
        ),
        pytest.param(
            {"report": activity(idle=60), "of": spec(sleep={"afterIdle": "30s"})}, None, id="a scrape is awaited"
        ),
        pytest.param({"listed": False}, None, id="its questions are not known yet"),
        pytest.param({"rolled_out": False}, None, id="the pod is not ready"),
        pytest.param({"new_revision": True}, None, id="another revision is wanted"),
        pytest.param({"annotation": "second"}, None, id="a request"),
        pytest.param({"decision": True}, None, id="a decision of an approval"),
        pytest.param({"gateway": False}, None, id="the gateway was removed"),
        pytest.param({"of": spec(sleep=None)}, None, id="the spec has no sleep any more"),
        pytest.param({"of": spec(suspend=True)}, None, id="suspended"),
    ],
)
def test_decided_sleep_needs_an_agent_that_is_still_idle(changes, wanted):
    assert decide(DECIDED, **{**STILL, **changes}) == wanted


@pytest.mark.parametrize(
    ("last", "sleeps"),
    [
        pytest.param(9_000, True, id="in the second of the decision"),
        pytest.param(9_001, False, id="after the decision"),
    ],
)
def test_activity_after_the_decision_ends_the_sleep(last, sleeps):
    report = activity(idle=NOW - last)
    assert (decide(ASLEEP, annotation="first", report=report) is not None) is sleeps


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        pytest.param(None, None, None, id="awake"),
        pytest.param(None, ASLEEP, 0, id="the decision, so the pod ends next"),
        pytest.param(None, DECIDED, 0, id="the decision, with own work"),
        pytest.param(ASLEEP, ASLEEP, None, id="asleep"),
        pytest.param(DECIDED, DECIDED, 50, id="asleep until own work is due"),
        pytest.param(replace(DECIDED, wakes_at=1), replace(DECIDED, wakes_at=1), None, id="overdue"),
        pytest.param(replace(DECIDED, wakes_at=NOW), replace(DECIDED, wakes_at=NOW), None, id="due, and not woken"),
        pytest.param(replace(DECIDED, wakes_at=NOW + 1), replace(DECIDED, wakes_at=NOW + 1), 1, id="due in a second"),
        pytest.param(DECIDED, replace(DECIDED, wakes_at=NOW + 9), 0, id="another time of own work before the pod ends"),
        pytest.param(DECIDED, None, None, id="awake again"),
    ],
)
def test_next_step_after_sleep_ends_the_pod_or_wakes(before, after, wanted):
    documents = [{} if state is None else {"sleep": state.document} for state in (before, after)]
    assert next_step_after(*documents, now=NOW) == wanted


@pytest.mark.parametrize(
    "state", [SleepState(since=1), SleepState(since=1, request="r", wakes_at=2)], ids=["least", "full"]
)
def test_sleep_state_survives_its_document(state):
    assert stored_state({"sleep": state.document}) == state


@pytest.mark.parametrize("damaged", [{}, {"since": 3}, {"since": "soon"}, "asleep"])
def test_damaged_sleep_state_means_awake(damaged):
    assert stored_state({"sleep": damaged}) is None


COUNTS = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(None, None, id="none"),
        pytest.param({**COUNTS}, None, id="no start"),
        pytest.param({**COUNTS, "startedAt": "yesterday"}, None, id="a start that is no time"),
        pytest.param({**COUNTS, "startedAt": format_timestamp(5), "openStreams": "0"}, None, id="a count as text"),
        pytest.param({**COUNTS, "startedAt": format_timestamp(5), "openStreams": -1}, None, id="a negative count"),
        pytest.param({**COUNTS, "startedAt": format_timestamp(5), "openStreams": True}, None, id="a boolean count"),
        pytest.param(
            {**COUNTS, "startedAt": format_timestamp(5)},
            Activity(last_active=5, scraped_at=None, wakes_at=None, read_at=9), id="no task yet",
        ),
        pytest.param(
            {
                **COUNTS, "waitingTasks": 1, "startedAt": format_timestamp(5),
                "lastTaskActivity": format_timestamp(7), "scrapedAt": format_timestamp(8),
                "lastOwnTaskActivity": format_timestamp(6), "nextWakeAt": format_timestamp(20),
            },
            Activity(waiting_tasks=1, last_active=7, last_own_active=6, scraped_at=8, wakes_at=20, read_at=9),
            id="everything",
        ),
    ],
)  # fmt: skip
def test_activity_is_parsed_or_dropped(document, wanted):
    assert parse_activity(document, read_at=9, parse_time=parse_timestamp) == wanted
