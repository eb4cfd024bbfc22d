"""Makes the kubelet read the mounted Secrets and ConfigMaps of running pods again at once, instead of within a minute.

A changed annotation of a pod makes the kubelet read its volumes. It watches pods and Secrets separately, so the
annotation may arrive before the new Secret, and the kubelet then mounts the old one again. The annotation therefore
changes a second time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.status.workload_health import has_ended

REPEAT_SECONDS: Final = 10
_FIRST_CHANGE_SUFFIX: Final = ".1"
"""Ends the first of the two values, so that an operator that restarts in between still writes the second one."""


def repeat_seconds(token_lead_seconds: int) -> int:
    """Return the time between the two changes. It ends before a new token is used for the first time."""
    return max(1, min(REPEAT_SECONDS, token_lead_seconds * 2 // 3))


@dataclass(frozen=True, slots=True)
class _Repetition:
    value: str
    due: int


class MountRefresher:
    """Annotates the pods of agents. It remembers only when the second change of each agent is due."""

    def __init__(self, cluster: Cluster, now: Callable[[], int], *, seconds: int = REPEAT_SECONDS) -> None:
        """Args: `seconds` is the time between the two changes."""
        self._cluster = cluster
        self._now = now
        self._seconds = seconds
        self._repetitions: dict[Key, _Repetition] = {}

    async def refresh_pods(self, observed: ObservedAgent) -> None:
        """Annotate the agent's running pods if an object that they mount has changed."""
        now, value = self._now(), self._hash_mounted(observed)
        repetition = self._repetitions.pop(observed.entry.id, None)
        if repetition is None or repetition.value != value:
            repetition = None
        # Without a repetition, an operator that has ended since then has made the first change.
        is_due = repetition is None or now >= repetition.due
        pods = [pod for pod in observed.of_kind("Pod") if not pod.deleting and not has_ended(pod)]
        values = [self._choose_value(pod, value, is_due=is_due) for pod in pods]
        for pod, chosen in zip(pods, values, strict=True):
            if pod.annotations.get(names.REFRESH_ANNOTATION) != chosen:
                await self._cluster.annotate(pod, {names.REFRESH_ANNOTATION: chosen})
        if value + _FIRST_CHANGE_SUFFIX in values:
            self._repetitions[observed.entry.id] = repetition or _Repetition(value, now + self._seconds)

    def repeat_after(self, agent: Key) -> int | None:
        """Return the seconds until the second change; None if none is due."""
        repetition = self._repetitions.get(agent)
        return max(0, repetition.due - self._now()) if repetition else None

    def forget(self, agent: Key) -> None:
        self._repetitions.pop(agent, None)

    def _choose_value(self, pod: CachedObject, value: str, *, is_due: bool) -> str:
        """Return the annotation of a pod: `value`, or before it the first change, until the second one is due."""
        current = pod.annotations.get(names.REFRESH_ANNOTATION)
        first_change = value + _FIRST_CHANGE_SUFFIX
        if current is None:
            # The kubelet has just read the volumes of a new pod, so one change is enough.
            is_new = self._now() - parse_timestamp(pod.created) < self._seconds
            return value if is_new else first_change
        if current == value or (current == first_change and is_due):
            return value
        return first_change

    def _hash_mounted(self, observed: ObservedAgent) -> str:
        """Return a hash of the objects that were written, not of the desired ones: writing may have stopped halfway."""
        cache, space, name = self._cluster.cache, observed.entry.namespace, observed.entry.name
        auth = cache.get("Secret", space, names.agent_auth(name))
        card = cache.get("ConfigMap", space, names.agent_card(name))
        keys = cache.get("Secret", space, names.agent_push(name))
        versions = [mounted.resource_version if mounted else "" for mounted in (auth, card)]
        # An object that is not mounted adds nothing to the hash, so pods of agents without push keys keep their
        # annotation.
        versions += [keys.resource_version] if keys else []
        return short_hash([*versions, *observed.referenced_versions])
