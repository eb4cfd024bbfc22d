"""Takes keys off the queue and reconciles them; the one place that turns an outcome into when to look again."""

import logging
import time
from collections.abc import Awaitable, Callable

from fleetwright_operator.cluster.feed import LOST
from fleetwright_operator.errors import ApiError, Waiting
from fleetwright_operator.metrics import Metrics
from fleetwright_operator.relations import Key
from fleetwright_operator.workqueue import WorkQueue

logger = logging.getLogger(__name__)

STALLED_SECONDS = 60.0
"""How soon something that a person must mend is looked at again, if no event comes first."""


async def work(
    queue: WorkQueue[Key],
    reconcile: Callable[[Key], Awaitable[bool]],
    *,
    metrics: Metrics,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """One worker; any number may share a queue."""
    while True:
        key = await queue.get()
        started = clock()
        try:
            outcome = await _attempt(queue, reconcile, key)
        finally:
            queue.done(key)
        metrics.reconciles.labels(kind=key[0], outcome=outcome).inc()
        metrics.reconcile_seconds.labels(kind=key[0]).observe(clock() - started)


async def _attempt(queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[bool]], key: Key) -> str:
    about = {"kind": key[0], "namespace": key[1], "object": key[2]}
    try:
        settled = await reconcile(key)
    except Waiting as waiting:
        logger.info("waiting", extra={**about, "why": str(waiting), "seconds": waiting.seconds})
        queue.add_after(key, waiting.seconds)
        return "waiting"
    except LOST as error:
        wanted = error.retry_after if isinstance(error, ApiError) else None
        pause = queue.retry(key, at_least=wanted or 0.0)
        logger.warning("API not obliging", extra={**about, "why": str(error) or repr(error), "seconds": pause})
        return "error"
    except Exception:
        pause = queue.retry(key)
        logger.exception("pass failed", extra={**about, "seconds": pause})
        return "error"
    queue.forget(key)
    if settled:
        return "done"
    queue.add_after(key, STALLED_SECONDS)
    return "stalled"
