"""Server-sent events: each event of a stream as one JSON document, and an error as the last event."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from a2a.utils.errors import A2AError
from sse_starlette.sse import EventSourceResponse
from starlette.responses import Response

from fleetwright_a2a.dialects.dialect import Params

Fault = Callable[[A2AError], Params]
_LINE_ENDS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
"""JSON may contain these characters, but many parsers of event streams treat them as line ends."""
_GRACE_SECONDS: Final = 3
KEEPALIVE_SECONDS: Final = 15.0
"""Proxies close idle connections, some of them after half a minute."""


async def nothing() -> AsyncGenerator[Params, None]:
    told: tuple[Params, ...] = ()
    for document in told:
        yield document


def streamed(
    told: AsyncGenerator[Params, None],
    *,
    fault: Fault,
    marked: bool,
    headers: Mapping[str, str],
    keepalive: float,
    broken: A2AError | None = None,
) -> Response:
    """Return the response for a stream.

    Args:
        told: The documents of the stream.
        fault: Converts an error to a document.
        marked: True if an error is sent with the event type `error`.
        headers: Additional response headers.
        keepalive: The seconds of silence after which a comment is sent.
        broken: An error with which the stream ends at once.
    """

    async def events() -> AsyncGenerator[dict[str, str], None]:
        async with aclosing(told):
            try:
                if broken is not None:
                    raise broken
                async for document in told:
                    line = {"data": _line(document)}
                    del document
                    yield line
                    del line
            except A2AError as error:
                yield {"data": _line(fault(error)), **({"event": "error"} if marked else {})}

    response = EventSourceResponse(events(), shutdown_grace_period=_GRACE_SECONDS)
    response.ping_interval = keepalive
    response.headers.update({"Cache-Control": "no-cache, no-store", **headers})
    return response


def _line(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=False)
    for character, escape in _LINE_ENDS.items():
        text = text.replace(character, escape)
    return text
