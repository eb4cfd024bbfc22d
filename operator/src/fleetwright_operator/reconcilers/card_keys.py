"""The reconciler of the installation's card keys: the Secret with the private keys, and the public key set.

Both objects are in the operator's own namespace and have no owner. They are found by name only.
"""

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.port import Object
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.credentials.keyring import Ring, key_set, next_change, renew_ring, ring_text
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.kinds.resources import own_card_keys, own_key_set
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardKeysReconciler:
    cluster: Cluster
    settings: Settings
    now: Callable[[], str]
    new_secret: Callable[[], str]

    async def __call__(self) -> ReconcileResult:
        entry = self.cluster.cache.get(names.CARD_KEYS, *self.settings.card_keys_place)
        known, now = stored_ring(entry), parse_timestamp(self.now())
        ring = renew_ring(known, now=now, rotation=self.settings.card_rotation, new_secret=self.new_secret)
        namespace, name = self.settings.card_keys_place
        secret = {"type": "Opaque", "data": {names.RING_KEY: base64.b64encode(ring_text(ring).encode()).decode()}}
        await self.cluster.apply_data(own_card_keys(name), _head("Secret", namespace, name) | secret)
        self._log_changes(entry, known, ring)
        shown = {"data": {names.KEY_SET_KEY: key_set(ring)}}
        await self.cluster.apply_data(own_key_set(name), _head("ConfigMap", namespace, name) | shown)
        return ReconcileResult(requeue_after=next_change(ring, rotation=self.settings.card_rotation) - now)

    def _log_changes(self, entry: CachedObject | None, before: Ring, after: Ring) -> None:
        old, new = ({key.key.kid for key in ring} for ring in (before, after))
        if old == new:
            return
        cause = "rotation" if old else "there were none" if entry is None else "the stored keys are damaged"
        logger.info("card keys changed", extra={"why": cause, "added": sorted(new - old), "removed": sorted(old - new)})


def _head(kind: str, namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
