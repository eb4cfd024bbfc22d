"""Events about repairs: a child that another client has changed or deleted, and a volume that is gone.

The operator undoes such a change at once, so no condition shows it. Without an Event, the change seems to be ignored.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Action
from fleetwright_kube.ownership import controller_of
from fleetwright_kube.port import Object
from fleetwright_operator.status.events import Notice, event_manifest

VOLUME_LOST: Final = "VolumeLost"
_REASONS: Final = {Action.REVERTED: "Reverted", Action.RECREATED: "Recreated"}
_MESSAGES: Final = {
    Action.REVERTED: "another client changed {child}. The change was undone: change the spec of {owner} instead",
    Action.RECREATED: "another client deleted {child}. It was written again, because the spec of {owner} asks for it",
}
_CLAIM: Final = "PersistentVolumeClaim"
_PAUSE_SECONDS: Final = 60.0
"""The least time between two equal Events. Two controllers that undo each other's writes must not flood the API."""
_REMEMBERED: Final = 2048


class RepairEvents:
    def __init__(
        self, cache: Cache, *, tell: Callable[[Object], None], now: Callable[[], str], monotonic: Callable[[], float]
    ) -> None:
        """Args: `tell` records an Event, `now` returns the time for it, and `monotonic` measures pauses."""
        self._cache = cache
        self._tell = tell
        self._now = now
        self._monotonic = monotonic
        self._told: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        """When an Event was last recorded, by the uid of its object, the reason and the child."""

    def report_write(self, manifest: Object, action: Action) -> None:
        """Report the write of a child if it is a repair."""
        if manifest["kind"] == _CLAIM and action in {Action.CREATED, Action.RECREATED}:
            self._report_claim(manifest)
            return
        owner = controller_of(manifest)
        if owner is None or action not in _REASONS:
            return
        child = f"{manifest['kind']} {manifest['metadata']['name']!r}"
        message = _MESSAGES[action].format(child=child, owner=f"{owner['kind']} {owner['name']!r}")
        about = {**{key: owner[key] for key in ("kind", "name", "uid")}, "namespace": manifest["metadata"]["namespace"]}
        self._report(about, child, _REASONS[action], message)

    def _report_claim(self, manifest: Object) -> None:
        """Report a created claim if a Deployment of the agent mounts it already: then the former claim is gone.

        A Deployment is written after the claim that it mounts. A claim that outlives its agent has no owner.
        """
        namespace, claim = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        agent = self._cache.get(names.AGENT, namespace, manifest["metadata"]["labels"].get(names.NAME, ""))
        if agent is None or not any(_mounts(each, claim) for each in self._cache.find("child-of", *agent.id)):
            return
        about = {"kind": agent.kind, "namespace": namespace, "name": agent.name, "uid": agent.uid}
        message = (
            f"the volume claim {claim!r} did not exist any more. The new one is empty: conversations, tasks, facts or"
            " files that the former one held are lost, unless a backup of the volume is restored"
        )
        self._report(about, claim, VOLUME_LOST, message)

    def _report(self, about: Object, child: str, reason: str, message: str) -> None:
        key, now = (about["uid"], reason, child), self._monotonic()
        if key in self._told and now - self._told[key] < _PAUSE_SECONDS:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        # The name of the Event depends on the first field, so each child has its own.
        notice = Notice(child, warning=True, reason=reason, message=message)
        self._tell(event_manifest(notice, about, now=self._now()))


def _mounts(child: CachedObject, claim: str) -> bool:
    return child.kind == "Deployment" and not child.deleting and claim in child.projection["claims"]
