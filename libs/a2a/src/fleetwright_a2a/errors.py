"""The errors that callers see: codes and texts without internal details.

The error codes of a dialect are in the dialect's table. The text of an unexpected exception is never sent to a caller.
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
CONTENT_TYPE_NOT_SUPPORTED: Final = -32005

RPC_PATH: Final = "/a2a"
"""The path of JSON-RPC; the other A2A paths are HTTP+JSON."""
NOT_ACCEPTED: Final = "Fleetwright-Not-Accepted"
"""The header of a response to a message that the process has not accepted. The message may be sent to another process.
"""

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_SENTENCE: Final = "The agent failed to handle this request; try again."
_LATER: Final = "The agent cannot use its task log right now; try again."


class NoStreams(UnsupportedOperationError):  # noqa: N818 - a statement about the card
    """The agent's card does not declare streaming (A2A 1.0 §3.3.4)."""


class NotTranslated(UnsupportedOperationError):  # noqa: N818 - a statement about the gateway
    """The gateway cannot translate this operation for the agent."""


class ServiceUnavailable(A2AError):  # noqa: N818 - a temporary state
    """The agent cannot accept messages right now."""

    status = 503
    retry_seconds = 1
    """The value of the `Retry-After` header."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_seconds)}


class NotAccepting(ServiceUnavailable):
    """The process accepts no messages, for example because it shuts down. Nothing of the request was kept."""

    @property
    def headers(self) -> dict[str, str]:
        return {**super().headers, NOT_ACCEPTED: "true"}


class LimitReached(ServiceUnavailable):
    """A caller has reached a concurrency limit."""

    status = 429
    retry_seconds = 5


class TooManyPending(LimitReached):
    """A caller has too many tasks that wait for its answer."""

    retry_seconds = 60


class MemoryFull(ServiceUnavailable):
    """The agent has no space for another task."""

    retry_seconds = 60


class HttpRefusal:
    """An error response that depends on no dialect, in the format of the binding at the path of the request."""

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
) -> HttpRefusal:
    """Return an error response. Args: `code` is the error code of a JSON-RPC response."""
    return HttpRefusal(status, sentence, code, headers or {})


def internal() -> InternalError:
    """Return the error for any unexpected exception; the details are in the log only."""
    return InternalError(_SENTENCE)


def operation(*temporary: type[Exception]) -> Callable[[F], F]:
    """Return a decorator after which an operation raises A2A errors only. Other exceptions are logged and replaced.

    Args: `temporary` are exceptions that a later attempt may not meet. Callers see them as HTTP 503 with `Retry-After`.
    """

    def decorate(method: F) -> F:
        guard = _guarded_stream if inspect.isasyncgenfunction(method) else _guarded
        return cast("F", guard(method, temporary))

    return decorate


def _guarded(method: Callable[..., Any], temporary: tuple[type[Exception], ...]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except A2AError:
            raise
        except temporary as error:
            _logger.warning("request refused for now", extra={"reason": str(error)})
            raise ServiceUnavailable(_LATER) from None
        except Exception:
            _logger.exception("request failed")
            raise internal() from None

    return wrapper


def _guarded_stream(method: Callable[..., Any], temporary: tuple[type[Exception], ...]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        async with aclosing(method(*args, **kwargs)) as inner:
            try:
                async for item in inner:
                    yield item
            except A2AError:
                raise
            except temporary as error:
                _logger.warning("stream refused for now", extra={"reason": str(error)})
                raise ServiceUnavailable(_LATER) from None
            except Exception:
                _logger.exception("stream failed")
                raise internal() from None

    return wrapper
