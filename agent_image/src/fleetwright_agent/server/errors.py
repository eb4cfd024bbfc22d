"""What callers are told when something is refused: codes, sentences, and nothing that is internal.

One table per dialect; this is the one of A2A 1.0. Refuses: passing on the text of an exception.
"""

import functools
import inspect
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

from a2a.server.request_handlers.request_handler import validate_request_params
from a2a.utils.errors import A2AError, InternalError
from starlette.responses import JSONResponse

_logger = logging.getLogger(__name__)
F = TypeVar("F", bound=Callable[..., Any])

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

_FIELD = re.compile(r"Failed to parse (\S+) field")
_SENTENCE: Final = "The agent failed to handle this request; try again."


def refuse(
    status: int,
    sentence: str,
    *,
    code: int = INVALID_REQUEST,
    request_id: Any = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A refusal before the protocol's own machinery is reached, in its shape."""
    body = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": sentence}}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


def operation(method: F) -> F:
    """An operation of the protocol: required fields are there, and only the protocol's errors leave.

    Anything else is logged and told as an internal error: the SDK's dispatchers would send its text.
    """
    checked = validate_request_params(method)
    guard = _guarded_stream if inspect.isasyncgenfunction(checked) else _guarded
    return cast("F", guard(checked))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return await method(*args, **kwargs)
        except A2AError:
            raise
        except Exception:
            _logger.exception("request failed")
            raise InternalError(_SENTENCE) from None

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
                raise InternalError(_SENTENCE) from None

    return wrapper


def sanitised(body: bytes) -> bytes:
    """A JSON-RPC answer without what the SDK's dispatcher adds to errors of parameters."""
    if b'"error"' not in body:
        return body
    answer = json.loads(body)
    error = answer.get("error")
    if not isinstance(error, dict):
        return body
    if error.get("code") == INTERNAL_ERROR:
        answer["error"] = {"code": INTERNAL_ERROR, "message": _SENTENCE}
    elif error.get("code") == INVALID_PARAMS and (field := _unparsed(error)) is not None:
        sentence = f"Invalid params: check {field}" if field else "Invalid params: check the shape of params"
        answer["error"] = {"code": INVALID_PARAMS, "message": sentence}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def _unparsed(error: Mapping[str, Any]) -> str | None:
    """The field that could not be read, empty if unknown; nothing when the error is about something else."""
    for detail in error.get("data") or ():
        text = detail.get("metadata", {}).get("parseError") if isinstance(detail, dict) else None
        if isinstance(text, str):
            return ".".join(_FIELD.findall(text))
    return None
