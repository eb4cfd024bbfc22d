"""Wakes an agent and waits until its pod is ready.

A wake is one idempotent patch of an annotation, so several replicas may ask for the same wake. The operator acts on it.
The gateway then asks the pod itself whether it is ready, because Kubernetes reports this up to a second later.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_api import names
from fleetwright_api.call_authorization import Identity, identity_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet, Pod
from fleetwright_gateway.cluster.resources import AGENTS
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.wake.false_condition import first_false_condition
from fleetwright_gateway.wake.holds import HoldLimit, Holds
from fleetwright_kube.errors import ForbiddenError, InvalidRequestError, NotFoundError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.port import Api
from fleetwright_kube.timestamps import format_micro_time

_logger = logging.getLogger(__name__)
ASLEEP: Final = "Asleep"
SUSPENDED: Final = "Suspended"
_POLL_SECONDS: Final = 0.1
_MOST_WAKES: Final = 10
_MOST_WAKES_OF_A_CALLER: Final = 5
_PROBE_SECONDS: Final = 15.0
"""The time for which the answer to a probe counts. The kubelet reports the readiness of a pod some seconds later."""
_PATCH_SECONDS: Final = 5.0
"""The time after which a patch without a response is repeated."""
_PATCH_PAUSES: Final = (0.2, 0.8)
"""The seconds before a failed patch is repeated."""
_REFUSALS: Final = (ForbiddenError, InvalidRequestError, NotFoundError)
"""The errors of a patch that will never succeed."""
IsReady = Callable[[Pod, str], Awaitable[bool]]
"""Asks a pod whether the agent with this uid is ready in it."""
_Wake = tuple[str, str, bool]
"""The namespace and the name of an agent, and whether its pod is probed."""


class NotAwake(Exception):  # noqa: N818 - an answer to the caller
    """The agent has no pod that serves."""

    def __init__(self, sentence: str, *, retry_seconds: int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.retry_seconds = retry_seconds


@dataclass(frozen=True, slots=True)
class Target:
    pod: Pod
    cold_start_ms: int | None = None
    """The time for which the request waited, or None if the agent was awake."""


class Waker:
    def __init__(
        self,
        api: Api,
        fleet: Fleet,
        holds: Holds,
        *,
        is_ready: IsReady,
        clock: Clock,
        metrics: GatewayMetrics,
        seconds: float,
    ) -> None:
        self._api = api
        self._fleet = fleet
        self._holds = holds
        self._is_ready = is_ready
        self._clock = clock
        self._metrics = metrics
        self._seconds = seconds
        self._running: dict[_Wake, asyncio.Task[Pod]] = {}
        self._callers: Counter[str] = Counter()
        """The number of running wakes that each caller has started."""
        self._probed: dict[Identity, tuple[str, float]] = {}
        """The uid of a pod that was ready when it was probed, and the time until which this counts, by agent."""

    async def target(
        self,
        agent: AgentView,
        *,
        caller: str,
        size: int,
        may_wake: Callable[[], bool] = lambda: True,
        is_probed: bool = False,
    ) -> Target:
        """Return the pod that serves the agent, and wake the agent first if it sleeps.

        Args:
            agent: The agent, which the caller may call.
            caller: The subject of the caller.
            size: The bytes that the request holds while it waits.
            may_wake: Returns whether the request may wake the agent; it is called only if the agent does not serve.
            is_probed: True if the pod itself must say that it is ready, because the cached pod accepts no messages.

        Raises:
            NotAwake: The agent has no pod that serves.
            HoldLimit: The request may not wait.
        """
        if not is_probed and (pod := self._serving_pod(agent)) is not None:
            return Target(pod)
        if self._fleet.shares_account(agent):
            sentence = "Another Agent has the same ServiceAccount. Give each Agent its own spec.serviceAccountName."
            raise NotAwake(sentence, retry_seconds=60)
        if agent.spec.suspend:
            raise NotAwake("The agent is suspended. Set spec.suspend to false.", retry_seconds=60)
        if agent.status.get("phase") == SUSPENDED:
            raise NotAwake("The agent is suspended together with its team.", retry_seconds=60)
        if not _may_sleep(agent):
            raise NotAwake("The agent has no ready pod at the moment.", retry_seconds=5)
        if not may_wake():
            raise NotAwake("The agent sleeps. Only messages and requests about tasks wake it.", retry_seconds=60)
        started = self._clock.monotonic()
        with (
            self._holds.hold(identity_of(agent), caller=caller, size=size),
            self._metrics.held_requests.track_inprogress(),
        ):
            woken = await asyncio.shield(self._wake(agent, caller, is_probed=is_probed))
        return Target(woken, cold_start_ms=round((self._clock.monotonic() - started) * 1000))

    def _serving_pod(self, agent: AgentView) -> Pod | None:
        """Return the pod if the kubelet reports it as ready, or if a recent probe has found it ready.

        The kubelet reports some seconds late. Requests in these seconds must not count as further wakes.
        """
        pod = self._fleet.running_pod(agent)
        if pod is None or not self._probed:
            return pod if pod is not None and pod.ready else None
        key = identity_of(agent)
        if pod.ready:
            # From now on, the kubelet also reports when the pod is no longer ready.
            self._probed.pop(key, None)
            return pod
        uid, until = self._probed.get(key, ("", 0.0))
        return pod if uid == pod.uid and self._clock.monotonic() < until else None

    def forget_probe(self, agent: AgentView) -> bool:
        """Forget that a probe has found the agent's pod ready. Return whether the kubelet does not report it as ready.

        The container of a woken agent may end before the kubelet has reported it as ready. Several requests may notice.
        """
        self._probed.pop(identity_of(agent), None)
        pod = self._fleet.running_pod(agent)
        return pod is None or not pod.ready

    def _note_probe(self, agent: AgentView, pod: Pod) -> None:
        now = self._clock.monotonic()
        self._probed = {key: each for key, each in self._probed.items() if now < each[1]}
        self._probed[identity_of(agent)] = (pod.uid, now + _PROBE_SECONDS)

    def _wake(self, agent: AgentView, caller: str, *, is_probed: bool) -> "asyncio.Task[Pod]":
        key = (*identity_of(agent), is_probed)
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= _MOST_WAKES:
                raise HoldLimit("Too many agents wake at the moment.", retry_seconds=5)
            if self._callers[caller] >= _MOST_WAKES_OF_A_CALLER:
                sentence = f"This caller may wake {_MOST_WAKES_OF_A_CALLER} agents at the same time."
                # Agents try three times, so a call to one agent of many succeeds if these wakes end in 20 seconds.
                raise HoldLimit(sentence, retry_seconds=10)
            self._holds.count_wake(caller)
            self._callers[caller] += 1
            task = self._running[key] = asyncio.create_task(self._woken(agent, is_probed=is_probed))
            task.add_done_callback(lambda done: self._ended(key, caller, done))
        return task

    def _ended(self, key: _Wake, caller: str, task: "asyncio.Task[Pod]") -> None:
        self._running.pop(key, None)
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]
        if not task.cancelled():
            failed = task.exception()  # Each waiting request raises it as well.
            self._metrics.wakes.labels("failed" if failed else "awake").inc()

    async def _woken(self, agent: AgentView, *, is_probed: bool) -> Pod:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(self._seconds):
                await self._request(agent)
                pod = await self._ready_pod(agent, is_probed=is_probed)
        except TimeoutError:
            raise self._timeout_error(agent) from None
        self._metrics.wake_seconds.observe(self._clock.monotonic() - started)
        if not pod.ready:
            self._note_probe(agent, pod)
        return pod

    def _timeout_error(self, agent: AgentView) -> NotAwake:
        current = self._fleet.agents.get(identity_of(agent), agent)
        cause = first_false_condition(current.status)
        ending = f": {cause}." if cause else "."
        return NotAwake(f"The agent did not wake in time{ending}", retry_seconds=5)

    async def _request(self, agent: AgentView) -> None:
        """Ask the operator to wake the agent. Every new value of the annotation is one request.

        A failed patch is repeated with the same value, because the API server may have stored it.

        Raises: NotAwake.
        """
        stamp = format_micro_time(datetime.fromtimestamp(self._clock.now(), UTC))
        patch = {"metadata": {"annotations": {names.WAKE_ANNOTATION: stamp}}}
        for pause in (*_PATCH_PAUSES, None):
            try:
                async with asyncio.timeout(_PATCH_SECONDS):
                    await self._api.merge(AGENTS, agent.namespace, agent.name, patch)
            except TRANSIENT_ERRORS as error:
                is_final = pause is None or isinstance(error, _REFUSALS)
                about = {"namespace": agent.namespace, "agent": agent.name, "why": str(error) or repr(error)}
                _logger.warning("a request to wake an agent failed", extra={**about, "repeated": not is_final})
                if pause is None or is_final:
                    raise NotAwake("The agent cannot be woken at the moment.", retry_seconds=5) from None
                await asyncio.sleep(pause)
            else:
                return

    async def _ready_pod(self, agent: AgentView, *, is_probed: bool) -> Pod:
        key = identity_of(agent)
        while True:
            current = self._fleet.agents.get(key)
            if current is None or current.uid != agent.uid:
                raise NotAwake("The agent was deleted.", retry_seconds=60)
            pod = self._fleet.running_pod(current)
            if pod is not None and ((pod.ready and not is_probed) or await self._is_ready(pod, agent.uid)):
                # Addresses are reused, so the cache must still show this pod at the address.
                again = self._fleet.running_pod(current)
                if again is not None and (again.uid, again.ip) == (pod.uid, pod.ip):
                    return again
            await asyncio.sleep(_POLL_SECONDS)


def _may_sleep(agent: AgentView) -> bool:
    return agent.spec.sleep is not None or agent.status.get("phase") == ASLEEP
