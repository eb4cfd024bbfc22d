"""Leader election with a Lease of coordination.k8s.io: acquire, renew and release.

Each process measures the expiry with its own clock, from the moment at which it last saw the Lease change. A process
that loses the Lease to another process must stop writing at once, so it exits. A process that could not renew the Lease
also stops writing, but tries to acquire it again: while the API server is unreachable, no other process can acquire it
either.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fleetwright_kube.errors import ConflictError, NotFoundError, OperatorError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.port import LEASES, Api, Object

logger = logging.getLogger(__name__)


class LeaseLostError(OperatorError):
    """Another process holds the Lease."""


class LeaseExpiredError(OperatorError):
    """The Lease could not be renewed in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    duration: int = 15
    """The seconds after which other processes treat a Lease that was not renewed as expired."""
    deadline: float = 10.0
    """The seconds for which renewing may fail before this process stops writing."""
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
        """Args: `now` returns the current time in the format of the API; `clock` is monotonic.

        `on_attempt` is called after each attempt to acquire or renew the Lease, even if the attempt failed.
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
        """True while no other process can have acquired the Lease.

        The process checks this before each write, because it may have been paused.
        """
        return self._renewed is not None and self._clock() - self._renewed < self._times.duration

    async def acquire(self) -> None:
        """Return when this process holds the Lease."""
        while True:
            try:
                if await self._attempt():
                    return
            except ConflictError:
                pass  # Another process has written the Lease first.
            except TRANSIENT_ERRORS as error:
                logger.warning("cannot read or write the Lease", extra={"why": str(error) or repr(error)})
            await self._sleep(self._times.retry)

    async def hold(self) -> None:
        """Renew the Lease until it is lost.

        Raises:
            LeaseLostError: Another process holds the Lease and may write. This process must stop writing.
            LeaseExpiredError: The Lease was not renewed. This process must stop writing, and acquire the Lease again.
        """
        renewed = self._clock()
        while True:
            await self._sleep(self._times.retry)
            try:
                async with asyncio.timeout(self._times.deadline):
                    if not await self._attempt():
                        raise LeaseLostError("another process holds the Lease")
                renewed = self._clock()
            except (ConflictError, *TRANSIENT_ERRORS) as error:
                if self._clock() - renewed > self._times.deadline:
                    self._renewed = None
                    raise LeaseExpiredError(f"the Lease could not be renewed: {str(error) or repr(error)}") from error

    async def release(self) -> None:
        """Release the Lease, so that the next process does not wait until it expires. A failure is only logged."""
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
            if lease["spec"].get("holderIdentity") == self._identity:
                await self._api.replace(LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except TRANSIENT_ERRORS as error:
            logger.warning("could not release the Lease", extra={"why": str(error) or repr(error)})

    async def _attempt(self) -> bool:
        try:
            return await self._try()
        finally:
            self._on_attempt()

    async def _try(self) -> bool:
        """Acquire or renew the Lease. Return False while another process holds it."""
        asked = self._clock()
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
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
