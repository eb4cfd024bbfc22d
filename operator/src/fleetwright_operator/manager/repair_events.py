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
    Action.REVERTED: (
        "another client changed {child}, and the operator reverted the change. Change the spec of {owner} instead, or"
        " let the other client, such as an admission webhook, leave the object as it is"
    ),
    Action.RECREATED: (
        "another client deleted {child}, and the operator created it again. Delete or change {owner} to remove it"
    ),
}
_CLAIM: Final = "PersistentVolumeClaim"
_MIN_INTERVAL_SECONDS: Final = 60.0
"""The least time between two equal Events. Two controllers that undo each other's writes must not flood the API."""
_REMEMBERED: Final = 2048


class RepairEvents:
    """Records Events about repairs of children."""

    def __init__(
        self,
        cache: Cache,
        *,
        record_event: Callable[[Object], None],
        now: Callable[[], str],
        monotonic: Callable[[], float],
    ) -> None:
        """Args: `record_event` records an Event, `now` returns the time for it, and `monotonic` measures pauses."""
        self._cache = cache
        self._record_event = record_event
        self._now = now
        self._monotonic = monotonic
        self._recorded_at: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        """When an Event was last recorded, by the uid of its object, the reason and the child."""

    def report_write(self, manifest: Object, action: Action) -> None:
        """Report the write of a child if it is a repair."""
        if manifest["kind"] == _CLAIM and action in {Action.CREATED, Action.RECREATED}:
            self._report_claim(manifest, was_deleted=action is Action.RECREATED)
            return
        owner = controller_of(manifest)
        if owner is None or action not in _REASONS:
            return
        child = f"{manifest['kind']} {manifest['metadata']['name']!r}"
        message = _MESSAGES[action].format(child=child, owner=f"{owner['kind']} {owner['name']!r}")
        about = {**{key: owner[key] for key in ("kind", "name", "uid")}, "namespace": manifest["metadata"]["namespace"]}
        self._record_repair(about, child, _REASONS[action], message)

    def _report_claim(self, manifest: Object, *, was_deleted: bool) -> None:
        """Report a created claim if the former one is gone: it was deleted, or a Deployment of the agent mounts it.

        A Deployment is written after the claim that it mounts. A claim that outlives its agent has no owner.
        """
        namespace, claim = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        agent = self._cache.get(names.AGENT, namespace, manifest["metadata"]["labels"].get(names.NAME, ""))
        if agent is None:
            return
        children = self._cache.find("child-of", *agent.id)
        if not was_deleted and not any(_is_deployment_with_claim(each, claim) for each in children):
            return
        about = {"kind": agent.kind, "namespace": namespace, "name": agent.name, "uid": agent.uid}
        message = (
            f"PersistentVolumeClaim {claim!r} was gone, and the operator created an empty one. Restore a backup of the"
            " volume if its conversations, tasks, facts or files matter"
        )
        self._record_repair(about, claim, VOLUME_LOST, message)

    def _record_repair(self, about: Object, child: str, reason: str, message: str) -> None:
        key, now = (about["uid"], reason, child), self._monotonic()
        if key in self._recorded_at and now - self._recorded_at[key] < _MIN_INTERVAL_SECONDS:
            return
        self._recorded_at[key] = now
        self._recorded_at.move_to_end(key)
        while len(self._recorded_at) > _REMEMBERED:
            self._recorded_at.popitem(last=False)
        # The name of the Event depends on the first field, so each child has its own.
        notice = Notice(child, warning=True, reason=reason, message=message)
        self._record_event(event_manifest(notice, about, now=self._now()))


def _is_deployment_with_claim(child: CachedObject, claim: str) -> bool:
    return child.kind == "Deployment" and not child.deleting and claim in child.projection["claims"]
