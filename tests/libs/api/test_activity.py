"""The obstacles to the sleep of an agent in its report."""

import pytest

from fleetwright_api.activity import Activity, find_sleep_obstacles

NOW = 10_000


def report(*, idle=900, own=None, scraped=NOW, wakes_at=None, **counts):
    own_active = None if own is None else NOW - own
    return Activity(
        last_active=NOW - idle, last_own_active=own_active, scraped_at=scraped, wakes_at=wakes_at, read_at=NOW, **counts
    )


@pytest.mark.parametrize(
    ("activity", "wanted"),
    [
        pytest.param(report(), [], id="idle"),
        pytest.param(report(running_tasks=1), ["a task runs"], id="a task"),
        pytest.param(
            report(running_tasks=2, waiting_tasks=3, open_streams=2, undelivered_pushes=2),
            [
                "2 tasks run",
                "3 tasks wait for their turn",
                "2 streams are open",
                "2 push notifications wait for delivery",
            ],
            id="all that a caller may begin",
        ),
        pytest.param(
            report(wakes_at=NOW),
            ["work is due, such as a retry, an expiry or the retention of the memory"],
            id="own work",
        ),
        pytest.param(report(wakes_at=NOW + 1), [], id="later own work"),
        pytest.param(report(idle=9), ["a task was active, or the pod started, 9 s ago"], id="a short pause"),
        pytest.param(
            report(idle=60, scraped=None), ["Prometheus has not read its metrics since the last task"], id="no scrape"
        ),
        pytest.param(report(idle=120, scraped=None), [], id="no scrape for two minutes"),
        pytest.param(
            report(own=5, scraped=NOW - 6),
            ["Prometheus has not read its metrics since the last task"],
            id="a task of its own",
        ),
        pytest.param(
            report(idle=5, scraped=None),
            [
                "a task was active, or the pod started, 5 s ago",
                "Prometheus has not read its metrics since the last task",
            ],
            id="a short pause without a scrape",
        ),
    ],
)
def test_obstacles_name_all_that_keeps_an_agent_awake(activity, wanted):
    assert [each.state for each in find_sleep_obstacles(activity, after_idle=10, now=NOW)] == wanted


def test_obstacles_name_the_rule():
    pause, scrape = find_sleep_obstacles(report(idle=5, scraped=None), after_idle=10, now=NOW)
    assert pause.rule == "spec.sleep.afterIdle asks for a pause of 10 s"
    assert scrape.rule == "the operator waits for that for 115 s more, so that no counted cost is lost"
