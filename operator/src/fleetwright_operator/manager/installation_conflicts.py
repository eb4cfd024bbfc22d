"""Reports that another installation manages objects in a namespace that this one serves too."""

import logging
from collections.abc import Callable

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.port import Object
from fleetwright_operator.observe.installation import read_installation
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.events import Notice, event_manifest

logger = logging.getLogger(__name__)
_REASON = "ManagedElsewhere"


class InstallationConflicts:
    """Reports each pair of namespace and installation once: in the log, and with an Event of the first object."""

    def __init__(self, settings: Settings, *, tell: Callable[[Object], None], now: Callable[[], str]) -> None:
        """Args: `tell` records an Event."""
        self._settings = settings
        self._tell = tell
        self._now = now
        self._reported: set[tuple[str, str]] = set()

    def report_conflict(self, entry: CachedObject) -> None:
        """Report an object that another installation manages."""
        other, own = read_installation(entry), self._settings.installation
        if (entry.namespace, other) in self._reported:
            return
        self._reported.add((entry.namespace, other))
        logger.warning(
            "another installation manages objects of this namespace, so this one writes nothing to them",
            extra={"kind": entry.kind, "namespace": entry.namespace, "object": entry.name, "other": other, "own": own},
        )
        message = (
            f"the installation {other} manages this object. {own} serves its namespace too, and writes nothing to it. "
            "Let one of them serve the namespace. To move the objects: kubectl annotate agents,skills,mcpservers --all "
            f"--overwrite --namespace {entry.namespace} {names.INSTALLATION_ANNOTATION}={own}"
        )
        # The name of the Event depends on the first field, and each side reports the other one.
        notice = Notice(other, warning=True, reason=_REASON, message=message)
        about = {"kind": entry.kind, "namespace": entry.namespace, "name": entry.name, "uid": entry.uid}
        self._tell(event_manifest(notice, about, now=self._now()))
