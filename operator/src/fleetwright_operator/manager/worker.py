"""Takes keys off the queue and reconciles them.

Only this module decides, from the result, when to reconcile a key again.
"""

import logging
import time
from collections.abc import Awaitable, Callable

from fleetwright_kube.errors import ApiError, RetryLaterError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.reconcilers.result import ReconcileResult

logger = logging.getLogger(__name__)

_SHORTEST_PAUSE = 1.0
"""Seconds. Timestamps are whole seconds, so a reconcile within the same second would see the same state."""
_FIRST_REFUSAL_PAUSE = 2.0
"""Seconds. A quota or a webhook seldom admits a write that it has just refused."""


async def run_worker(
    queue: WorkQueue[Key],
    reconcile: Callable[[Key], Awaitable[ReconcileResult]],
    *,
    metrics: OperatorMetrics,
    stalled_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run one worker; any number may share a queue.

    An object that a user must fix is reconciled again after `stalled_seconds`. If the API server rejected a write, the
    first retries come sooner, because a changed admission rule or permission sends no event.
    """
    while True:
        key = await queue.get()
        started = clock()
        try:
            outcome = await _attempt(queue, reconcile, key, stalled_seconds)
        finally:
            queue.done(key)
        metrics.reconciles.labels(kind=key[0], outcome=outcome).inc()
        metrics.reconcile_seconds.labels(kind=key[0]).observe(clock() - started)


async def _attempt(
    queue: WorkQueue[Key], reconcile: Callable[[Key], Awaitable[ReconcileResult]], key: Key, stalled_seconds: float
) -> str:
    about = {"kind": key[0], "namespace": key[1], "object": key[2]}
    try:
        ending = await reconcile(key)
    except RetryLaterError as waiting:
        logger.info("waiting", extra={**about, "why": str(waiting), "seconds": waiting.seconds})
        queue.add_after(key, waiting.seconds)
        return "waiting"
    except TRANSIENT_ERRORS as error:
        wanted = error.retry_after if isinstance(error, ApiError) else None
        pause = queue.retry(key, at_least=wanted or 0.0, server_error=True)
        logger.warning(
            "request to the API server failed",
            extra={**about, "why": str(error) or repr(error), "seconds": pause},
        )
        return "error"
    except Exception:
        pause = queue.retry(key)
        logger.exception("reconcile failed", extra={**about, "seconds": pause})
        return "error"
    pauses = [ending.requeue_after, None if ending.settled else stalled_seconds]
    if ending.refused:
        pauses.append(queue.retry(key, base=_FIRST_REFUSAL_PAUSE, at_most=stalled_seconds))
    else:
        queue.forget(key)
    if known := [pause for pause in pauses if pause is not None]:
        queue.add_after(key, max(min(known), _SHORTEST_PAUSE))
    return "done" if ending.settled else "stalled"
