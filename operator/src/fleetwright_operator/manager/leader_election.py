"""One operator at a time: a Lease of coordination.k8s.io, held, renewed, lost or given back.

Expiry is measured from when this process saw the record change, so clocks of other machines do not matter.
Whoever loses it to another must stop writing at once: the process ends. Whoever only could not renew it stops as well,
and stands by: as long as the API server is away, nobody else can have it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fleetwright_operator.kube.errors import Collision, Missing, OperatorError
from fleetwright_operator.kube.informer import LOST
from fleetwright_operator.kube.port import LEASES, Api, Object

logger = logging.getLogger(__name__)


class LeaseLost(OperatorError):  # noqa: N818 - named by what happened
    """Somebody else holds the Lease."""


class LeaseLapsed(OperatorError):  # noqa: N818 - named by what happened
    """It could not be renewed in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    duration: int = 15
    """For how long others respect a record that does not change."""
    deadline: float = 10.0
    """For how long renewing may fail."""
    retry: float = 2.0


class Lease:
    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], str],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_attempt: Callable[[], None] = lambda: None,
        times: LeaseTimes | None = None,
    ) -> None:
        """`now` is the time of day as the API writes it, `clock` a monotonic one.

        `on_attempt` hears that an attempt has ended, well or not.
        """
        self._api = api
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._on_attempt = on_attempt
        self._times = times or LeaseTimes()
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed: float | None = None

    @property
    def in_hand(self) -> bool:
        """Whether nobody else can have it yet. A process that was stopped for a while asks before it writes."""
        return self._renewed is not None and self._clock() - self._renewed < self._times.duration

    async def acquire(self) -> None:
        """Returns when this process holds the Lease."""
        while True:
            try:
                if await self._attempt():
                    return
            except Collision:
                pass  # somebody was quicker
            except LOST as error:
                logger.warning("Lease not reached", extra={"why": str(error) or repr(error)})
            await self._sleep(self._times.retry)

    async def hold(self) -> None:
        """Renews until it is lost.

        Raises:
            LeaseLost: Stop writing now; another process may write.
            LeaseLapsed: Stop writing now, and acquire it again.
        """
        renewed = self._clock()
        while True:
            await self._sleep(self._times.retry)
            try:
                async with asyncio.timeout(self._times.deadline):
                    if not await self._attempt():
                        raise LeaseLost("another process holds the Lease")
                renewed = self._clock()
            except (Collision, *LOST) as error:
                if self._clock() - renewed > self._times.deadline:
                    self._renewed = None
                    raise LeaseLapsed(f"the Lease could not be renewed: {str(error) or repr(error)}") from error

    async def release(self) -> None:
        """Lets the next one in without waiting; failing to is no harm."""
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._api.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except LOST as error:
            logger.warning("Lease not given back", extra={"why": str(error) or repr(error)})

    async def _attempt(self) -> bool:
        try:
            return await self._try()
        finally:
            self._on_attempt()

    async def _try(self) -> bool:
        """Takes or renews the Lease; False while somebody else holds it."""
        asked = self._clock()
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
        except Missing:
            await self._api.create(LEASES, self._fresh())
            self._renewed = asked
            return True
        spec = lease["spec"]
        holder = spec.get("holderIdentity", "")
        if holder and holder != self._identity and not self._expired(lease):
            self._renewed = None
            return False
        moved = {} if holder == self._identity else self._taken(spec)
        renewed = {**spec, **moved, "renewTime": self._now(), "leaseDurationSeconds": self._times.duration}
        await self._api.replace(LEASES, {**lease, "spec": renewed})
        self._renewed = asked
        return True

    def _expired(self, lease: Object) -> bool:
        version = lease["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = (version, self._clock())
        patience = lease["spec"].get("leaseDurationSeconds", self._times.duration)
        return self._clock() - self._seen[1] > float(patience)

    def _taken(self, spec: dict[str, Any]) -> dict[str, Any]:
        transitions = spec.get("leaseTransitions", 0) + 1
        return {"holderIdentity": self._identity, "acquireTime": self._now(), "leaseTransitions": transitions}

    def _fresh(self) -> Object:
        now = self._now()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._times.duration,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }
