"""What must be on disk before a request leaves for a model: the record of the call that the request belongs to.

The record is written while the request is prepared; only the transport waits for it. Refuses: knowing what is recorded.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_pending: ContextVar["asyncio.Future[None] | None"] = ContextVar("pending", default=None)


@contextmanager
def sent_after(writing: "asyncio.Future[None]") -> Iterator[None]:
    """Let no request of this context leave before that write is on disk.

    Raises: the error of the write, where a request failed for it.
    """
    token = _pending.set(writing)
    try:
        yield
    except Exception:
        # Clients of providers report what their transport raises as a lost connection.
        if writing.done() and (error := writing.exception()):
            raise error from None
        raise
    finally:
        _pending.reset(token)


async def on_disk() -> None:
    """Return once the record of this call is on disk.

    Raises: the error of the write.
    """
    if (writing := _pending.get()) is not None:
        await asyncio.wait([writing])  # A caller that stops waiting stops no write.
        writing.result()
