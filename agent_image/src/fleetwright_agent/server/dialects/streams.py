"""Server-sent events: what a stream tells, each as one JSON document, and its end when something breaks."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from a2a.server.routes.common import create_event_source_response
from a2a.utils.errors import A2AError
from starlette.responses import Response

from fleetwright_agent.server.dialects.dialect import Params

Fault = Callable[[A2AError], Params]
_LINE_ENDS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\x85": "\\u0085"}
"""JSON may hold them; many readers of streams take them for the end of a line."""
_GRACE_SECONDS: Final = 3
KEEPALIVE_SECONDS: Final = 15.0
"""Proxies end what is silent for longer, some of them after half a minute."""
UNREAD_SECONDS: Final = 300.0
"""Whoever takes nothing for so long is not slow but gone; it may subscribe again."""


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
    """Args: `broken` is what the stream ends with at once; `marked` names an error as an event of that kind.

    After `keepalive` seconds of silence a comment is sent.
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

    response = create_event_source_response(events(), shutdown_grace_period=_GRACE_SECONDS)
    response.ping_interval = keepalive
    response.send_timeout = UNREAD_SECONDS
    response.headers.update({"Cache-Control": "no-cache, no-store", **headers})
    return response


def _line(document: Any) -> str:
    text = json.dumps(document, ensure_ascii=False)
    for character, escape in _LINE_ENDS.items():
        text = text.replace(character, escape)
    return text
