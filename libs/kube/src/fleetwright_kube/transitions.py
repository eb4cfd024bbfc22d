"""Logs the changed conditions of an object, so that the log shows the history of the objects."""

import logging

from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.port import Object

logger = logging.getLogger(__name__)


def log_transitions(entry: CachedObject, status: Object) -> None:
    """Log one line for each changed condition."""
    before = {condition["type"]: condition for condition in entry.projection["status"].get("conditions", ())}
    about = {"kind": entry.kind, "namespace": entry.namespace, "object": entry.name}
    for condition in status.get("conditions", ()):
        old = before.get(condition["type"], {})
        if (old.get("status"), old.get("reason")) != (condition["status"], condition["reason"]):
            words = {"condition": condition["type"], "now": condition["status"], "reason": condition["reason"]}
            logger.info("condition", extra={**about, **words, "why": condition["message"]})
