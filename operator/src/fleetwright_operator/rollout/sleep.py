"""Decides whether an agent sleeps. The Deployment of a sleeping agent has no pod, because the agent is idle. Pure.

An agent goes to sleep only if a report of its current pod shows that nothing runs, that the last activity is long
enough ago, and that its counters were scraped since. An agent that may ask for approvals must also have listed its open
questions to this process, and each of them must have its Approval, because a new question would otherwise stay hidden
during the sleep. An agent without the route of this list has no questions that the operator could show. Tasks that the
agent begins by itself do not count as activity. While one runs, the agent stays awake, but the idle time starts at the
last activity of a caller.

The status stores the decision before the pod ends. Meanwhile the pod still serves, and the gateway still sends messages
to it. The pod therefore ends only if all these conditions still hold, and if no task was active since the decision.

A sleeping agent wakes at a request, when its revision changes, or when its own pending work is due. It also wakes for a
decision of an Approval, and if its last pod, while it ends, still works on a task that came after the report. An open
Approval alone does not keep it awake.

Every new value of the wake annotation is a request. The values are never compared as times, because the clocks of their
writers may differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetwright_api import durations, names
from fleetwright_api.activity import Activity, find_sleep_obstacles
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp

FRESH_SECONDS: Final = 15
"""The greatest age of a report by which an agent may go to sleep. An older one may not show a new task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepState:
    """The state as the status stores it. It is absent while the agent is awake."""

    since: int
    """The time of the decision. The pod ends with the next reconcile."""
    request: str = ""
    """The wake annotation at the time of the decision."""
    wakes_at: int | None = None
    """The time at which the agent has to do pending work."""

    @property
    def document(self) -> dict[str, Any]:
        due = {} if self.wakes_at is None else {"wakesAt": format_timestamp(self.wakes_at)}
        request = {"request": self.request} if self.request else {}
        return {"since": format_timestamp(self.since), **request, **due}


def stored_state(status: Mapping[str, Any]) -> SleepState | None:
    """Return the state from a status; None if the agent is awake, or if the stored state is damaged."""
    stored = status.get("sleep") or {}
    try:
        return SleepState(
            since=parse_timestamp(stored["since"]),
            request=str(stored.get("request", "")),
            wakes_at=parse_timestamp(stored["wakesAt"]) if "wakesAt" in stored else None,
        )
    except (KeyError, TypeError, ValueError):
        return None


def next_state(
    spec: AgentSpec,
    state: SleepState | None,
    *,
    has_pod: bool,
    has_gateway: bool,
    annotations: Mapping[str, str],
    is_rolled_out: bool,
    has_new_revision: bool,
    activity: Activity | None,
    ending: Activity | None,
    has_decision: bool,
    shows_questions: bool,
    now: int,
) -> SleepState | None:
    """Return the state after this reconcile.

    Args:
        spec: The spec of the agent.
        state: The state before this reconcile; None if the agent is awake.
        has_pod: True if the Deployment wants a pod, so that the agent may receive messages even if it has a state.
        has_gateway: False if no message could wake the agent.
        annotations: The annotations of the Agent.
        is_rolled_out: True if the current revision runs and is ready.
        has_new_revision: True if the Deployment has another revision than the wanted one.
        activity: From the last report of the current pod; None before there is one.
        ending: From the last report of a pod that ends; None if there is none.
        has_decision: True if a person has decided and the agent has not answered yet.
        shows_questions: True if each open question of the agent has an Approval, or the agent asks or lists none.
        now: The time in seconds.
    """
    if spec.sleep is None or spec.suspend or not has_gateway or has_decision:
        return None
    request = annotations.get(names.WAKE_ANNOTATION, "")
    if state is not None and not has_pod:
        is_left = any(each is not None and each.is_busy and each.read_at >= state.since for each in (activity, ending))
        has_work = has_new_revision or is_left or _is_due(state.wakes_at, now)
        return None if request != state.request or has_work else state
    may_sleep = is_rolled_out and not has_new_revision and shows_questions
    if not may_sleep or activity is None or now - activity.read_at > FRESH_SECONDS:
        return None
    if any(find_sleep_obstacles(activity, after_idle=durations.seconds(spec.sleep.after_idle), now=now)):
        return None
    if state is None:
        return SleepState(since=now, request=request, wakes_at=activity.wakes_at)
    if request != state.request or activity.last_active > state.since:
        return None
    return replace(state, wakes_at=activity.wakes_at)


def _is_due(wakes_at: int | None, now: int) -> bool:
    return wakes_at is not None and wakes_at <= now


def next_step_after(before: Mapping[str, Any], after: Mapping[str, Any], *, now: int) -> int | None:
    """Return the seconds until the next reconcile that a sleep needs; None if it needs none.

    A time of own work in the past is ignored. A reconcile that could not wake the agent keeps it, so it would requeue
    the Agent forever. The event that ends the cause, or the retry of a refused write, wakes the agent.

    Args:
        before: The status before this reconcile.
        after: The status that this reconcile writes. If it is the first with this sleep, the next one ends the pod.
        now: The time in seconds.
    """
    state = stored_state(after)
    if state is None:
        return None
    if stored_state(before) != state:
        return 0
    return None if state.wakes_at is None or _is_due(state.wakes_at, now) else state.wakes_at - now
