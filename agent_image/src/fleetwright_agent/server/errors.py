"""What callers are told when something is refused: codes, sentences, and nothing that is internal.

Codes of the dialects stand in their tables. Refuses: passing on the text of an exception.
"""

import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

from a2a.utils.errors import A2AError, InternalError, UnsupportedOperationError
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

_logger = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

RPC_PATH: Final = "/a2a"
"""Where JSON-RPC is spoken; what lies below is HTTP+JSON."""

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_SENTENCE: Final = "The agent failed to handle this request; try again."


class NoStreams(UnsupportedOperationError):  # noqa: N818 - the card, as the caller is told
    """The card of this agent offers no streams (A2A 1.0 §3.3.4)."""


class Unavailable(A2AError):  # noqa: N818 - a state that passes, as the caller is told
    """Messages cannot be taken right now."""

    status = 503
    retry_seconds = 1
    """After which it is worth trying again."""


class LimitReached(Unavailable):
    """A caller has as much at once as it may have."""

    status = 429
    retry_seconds = 5


class TooMuchWaits(LimitReached):
    """What a caller has is for itself to end."""

    retry_seconds = 60


class MemoryFull(Unavailable):
    """There is no room for another task."""

    retry_seconds = 60


class Refusal:
    """A refusal before a dialect is known, in the shape of the binding that is spoken at its path."""

    def __init__(self, status: int, sentence: str, code: int, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self._code = code
        self._sentence = sentence
        self._headers = dict(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = {"code": self._code, "message": self._sentence}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
        if scope["path"].rstrip("/") != RPC_PATH:
            status = _STATUSES.get(self.status_code, "INTERNAL")
            body = {"error": {"code": self.status_code, "status": status, "message": self._sentence}}
        response = JSONResponse(body, status_code=self.status_code, headers=self._headers)
        await response(scope, receive, send)


def refuse(
    status: int, sentence: str, *, code: int = INVALID_REQUEST, headers: Mapping[str, str] | None = None
) -> Refusal:
    """Args: `code` is the one over JSON-RPC."""
    return Refusal(status, sentence, code, headers or {})


def internal() -> InternalError:
    """What is told of whatever went wrong inside; the log has the rest."""
    return InternalError(_SENTENCE)


def operation(method: F) -> F:
    """An operation of the protocol: only the protocol's errors leave it."""
    guard = _guarded_stream if inspect.isasyncgenfunction(method) else _guarded
    return cast("F", guard(method))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except A2AError:
            raise
        except Exception:
            _logger.exception("request failed")
            raise internal() from None

    return wrapper


def _guarded_stream(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(method(*args, **kwargs)) as inner:
            try:
                async for item in inner:
                    yield item
            except A2AError:
                raise
            except Exception:
                _logger.exception("stream failed")
                raise internal() from None

    return wrapper
