"""Completes the JSON-RPC envelope of simple clients, if a request asks for it. Pure.

With the header `Fleetwright-Repair: envelope`, a body without `jsonrpc` gets a version and an id, and a message without
`messageId` gets one. Without the header the body passes unchanged, byte for byte. A caller that relies on this cannot
repeat a request safely, because the agent recognises a repeated message by its id.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from a2a.utils.errors import JSONParseError

from fleetwright_a2a.http.envelope import parse

HEADER: Final = "fleetwright-repair"
ENVELOPE: Final = "envelope"


class InvalidBody(ValueError):  # noqa: N818 - an answer to the caller
    """The body cannot be repaired, or the header is invalid."""


def requested_body(body: bytes, header: str, *, new_id: Callable[[], str]) -> bytes:
    """Return the body, with a complete envelope if the header asks for it.

    Raises:
        InvalidBody: The body is not a JSON object, or the header has another value. The message is for the caller.
    """
    if header not in ("", ENVELOPE):
        raise InvalidBody(f"Fleetwright-Repair must be {ENVELOPE!r}; leave out the header to send the body as it is.")
    return repaired(body, new_id=new_id) if header and body else body


def repaired(body: bytes, *, new_id: Callable[[], str]) -> bytes:
    """Return the body with a complete envelope.

    Raises:
        InvalidBody: The body is not a JSON object.
    """
    try:
        call = parse(body)
    except JSONParseError as error:
        raise InvalidBody(str(error)) from None
    if not isinstance(call, dict):
        raise InvalidBody("The body must be a JSON object.")
    if "jsonrpc" not in call:
        call = {"jsonrpc": "2.0", "id": new_id(), **call}
    message = _message(call)
    if message is not None and not message.get("messageId"):
        message["messageId"] = new_id()
    return json.dumps(call, ensure_ascii=False, separators=(",", ":")).encode()


def _message(call: dict[str, Any]) -> dict[str, Any] | None:
    params = call.get("params")
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, dict) else None
