"""Records Events for the transitions of an object's conditions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.manager.warning_delay import WarningDelay
from fleetwright_operator.status.events import Notice, event_manifest, notices


class TransitionEvents:
    def __init__(self, cache: Cache, warnings: WarningDelay, *, now: Callable[[], str]) -> None:
        self._cache = cache
        self._warnings = warnings
        self._now = now

    def record(self, entry: CachedObject, status: Mapping[str, Any]) -> None:
        """Record what the new status of an object changes."""
        about = {"kind": entry.kind, "namespace": entry.namespace, "name": entry.name, "uid": entry.uid}
        before = entry.projection["status"].get("conditions", ())
        for notice in notices(before, status["conditions"]):
            event = event_manifest(notice, about, now=self._now())
            self._warnings.submit(entry.uid, notice, event, stands=partial(self._still_holds, entry, notice))

    def _still_holds(self, known: CachedObject, notice: Notice) -> bool:
        """Return whether the condition still matches the notice."""
        entry = self._cache.get(*known.id)
        conditions = entry.projection["status"].get("conditions", ()) if entry and entry.uid == known.uid else ()
        return any((each["type"], each["reason"]) == (notice.condition, notice.reason) for each in conditions)
