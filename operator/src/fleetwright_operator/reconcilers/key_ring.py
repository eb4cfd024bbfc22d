"""The reconciler of a key ring of the installation: the keys of cards, or those of the gateway's tokens.

A ring is a Secret with private keys. The public keys of cards are also published as a ConfigMap. The public keys of the
gateway are in the auth Secret of each agent. The objects of a ring are in the operator's own namespace and have no
owner. They are found by name only.
"""

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.port import Object, Resource
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.credentials.keyring import Ring, key_set, next_change, renew_ring, ring_text
from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.reconcilers.result import ReconcileResult

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRingReconciler:
    cluster: Cluster
    secret: Resource
    """The resource of the one Secret; its kind is the kind in the cache."""
    place: tuple[str, str]
    """(namespace, name)"""
    rotation: Rotation
    published: Resource | None
    """The resource of the ConfigMap with the public keys; None if there is none."""
    now: Callable[[], str]
    new_secret: Callable[[], str]

    async def __call__(self) -> ReconcileResult:
        entry = self.cluster.cache.get(self.secret.kind, *self.place)
        known, now = stored_ring(entry), parse_timestamp(self.now())
        ring = renew_ring(known, now=now, rotation=self.rotation, new_secret=self.new_secret)
        namespace, name = self.place
        secret = {"type": "Opaque", "data": {names.RING_KEY: base64.b64encode(ring_text(ring).encode()).decode()}}
        await self.cluster.apply_data(self.secret, _head("Secret", namespace, name) | secret)
        self._log_changes(entry, known, ring)
        if self.published is not None:
            shown = {"data": {names.KEY_SET_KEY: key_set(ring)}}
            await self.cluster.apply_data(self.published, _head("ConfigMap", namespace, name) | shown)
        return ReconcileResult(requeue_after=next_change(ring, rotation=self.rotation) - now)

    def _log_changes(self, entry: CachedObject | None, before: Ring, after: Ring) -> None:
        old, new = ({key.key.kid for key in ring} for ring in (before, after))
        if old == new:
            return
        cause = "rotation" if old else "there were none" if entry is None else "the stored keys are damaged"
        logger.info(
            "signing keys changed",
            extra={"keys": self.secret.kind, "why": cause, "added": sorted(new - old), "removed": sorted(old - new)},
        )


def _head(kind: str, namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
