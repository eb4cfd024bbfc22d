"""Validation of a caller's message, and the deduplication key of a request.

This module does not read the log and does not decide what happens to a message.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

from a2a.types.a2a_pb2 import Message, Part, Role, SendMessageRequest, Task
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extension_codec import lift_parts
from fleetwright_a2a.extensions import (
    ANSWER,
    CALLERS,
    CONTEXT_FORK,
    CONTEXT_TITLE,
    INCOGNITO,
    KAGENT_HITL,
    LABELS,
    WORKSPACE_UNDO,
)
from fleetwright_a2a.outbound.policy.egress_policy import UnusableUrl, target_of
from fleetwright_agent.protocol.context_changes import fork_of, title_of, undo_of
from fleetwright_agent.protocol.frames import Image
from fleetwright_agent.server.extensions import call_path
from fleetwright_agent.storage.tasks.records import Claim

MAX_ID: Final = 128
_LONGEST_LABEL: Final = 64
NO_CHOICES: Final[Mapping[str, frozenset[str]]] = {}
_NEEDED: Final = {
    CONTEXT_FORK: "a workspace or a2a.extensions.context",
    CONTEXT_TITLE: "a workspace or a2a.extensions.context",
    WORKSPACE_UNDO: "a workspace",
}
"""The part of the agent that each of these extensions requires, as the error message names it."""
_TEXT: Final = "text/plain"
_JSON: Final = "application/json"


def check_id(value: str, *, field: str) -> None:
    """Check an id that a caller chose. Raises: InvalidParamsError."""
    if len(value) > MAX_ID:
        raise InvalidParamsError(f"{field} is longer than {MAX_ID} characters")
    if not value.isprintable():
        raise InvalidParamsError(f"{field} contains characters that are not printable")


def understood(request: SendMessageRequest, uris: Collection[str]) -> SendMessageRequest:
    """Move the data of these extensions from message parts to the metadata, and return the request."""
    message = lift_parts(request.message, uris)
    if message is request.message:
        return request
    kept = SendMessageRequest()
    kept.CopyFrom(request)
    kept.message.CopyFrom(message)
    return kept


def check_message(
    request: SendMessageRequest,
    *,
    input_modes: Collection[str],
    choices: Mapping[str, frozenset[str]] = NO_CHOICES,
    supported: Collection[str] = (),
) -> None:
    """Check a caller's message, apart from the question whether the task that it names exists.

    Args:
        request: The request with the message.
        input_modes: The media types that the card declares. Text is always accepted.
        choices: The allowed values of metadata keys.
        supported: The URIs of the extensions that the agent supports.

    Raises:
        InvalidParamsError: A field is invalid. The error text names the field.
        ContentTypeNotSupportedError: The agent does not accept the media type of a part.
    """
    message = request.message
    check_id(message.message_id, field="message.messageId")
    check_id(message.context_id, field="message.contextId")
    check_id(message.task_id, field="message.taskId")
    if message.role != Role.ROLE_USER:
        raise InvalidParamsError("message.role must be ROLE_USER")
    check_content(message, input_modes=input_modes, is_answer=bool(message.task_id))
    metadata = metadata_of(request)
    call_path(metadata)
    _check_labels(metadata)
    _check_context_changes(metadata, task_id=message.task_id, supported=supported)
    for key, known in choices.items():
        chosen = metadata.get(key)
        if key in metadata and not (isinstance(chosen, str) and chosen in known):
            raise InvalidParamsError(f"metadata.{key} must be one of: {', '.join(sorted(known))}")


def check_content(message: Message, *, input_modes: Collection[str], is_answer: bool) -> None:
    """Check the parts of a caller's message.

    Args:
        message: The message.
        input_modes: The media types that the card declares. Text is always accepted.
        is_answer: True if the message may answer a question. The answer to a form may consist of data only, and a
            decision of kagent's extension may consist of metadata only.

    Raises:
        InvalidParamsError: A field is invalid, or the message has no content. The error text names the field.
        ContentTypeNotSupportedError: The agent does not accept the media type of a part.
    """
    rest = [part for part in message.parts if not (is_answer and part.HasField("data"))]
    for part in rest:
        _check_part(part, input_modes)
    is_decision = is_answer and KAGENT_HITL in message.metadata.fields
    if (
        not is_decision
        and len(rest) == len(message.parts)
        and not any(part.text.strip() or _is_content(part) for part in message.parts)
    ):
        raise InvalidParamsError("message.parts must hold text")


def _check_labels(metadata: Mapping[str, Any]) -> None:
    for key in LABELS:
        value = metadata.get(key, "")
        if not isinstance(value, str) or len(value) > _LONGEST_LABEL or not value.isprintable():
            raise InvalidParamsError(f"metadata.{key} must be a text of at most {_LONGEST_LABEL} printable characters")
    if not isinstance(metadata.get(INCOGNITO, False), bool):
        raise InvalidParamsError(f"metadata.{INCOGNITO} must be true or false")


def _check_context_changes(metadata: Mapping[str, Any], *, task_id: str, supported: Collection[str]) -> None:
    for uri, needed in _NEEDED.items():
        if uri in metadata and uri not in supported:
            sentence = f"this agent does not support the extension, which needs {needed}, and no executor of its own"
            raise InvalidParamsError(f"metadata[{uri!r}]: {sentence}; leave it out")
    try:
        found = {
            CONTEXT_FORK: fork_of(metadata),
            CONTEXT_TITLE: title_of(metadata),
            WORKSPACE_UNDO: undo_of(metadata),
        }
    except ValueError as error:
        raise InvalidParamsError(str(error)) from None
    asked = [uri for uri, change in found.items() if change]
    if asked and task_id:
        raise InvalidParamsError(f"metadata[{asked[0]!r}] begins a task; leave message.taskId out")
    if len(asked) > 1:
        raise InvalidParamsError(f"metadata[{asked[0]!r}] and metadata[{asked[1]!r}] need a message each")


def _check_part(part: Part, input_modes: Collection[str]) -> None:
    stated = _kind(part)
    if part.HasField("url"):
        _check_reference(part, stated)
    elif not part.HasField("text"):
        # The built-in loop accepts text, and images if the agent has vision. Other media types are for other executors.
        stated = stated or (_JSON if part.HasField("data") else _TEXT)
        if stated == _TEXT or stated not in input_modes:
            raise ContentTypeNotSupportedError(f"message.parts: this agent takes {_accepted(input_modes)}")
    if stated and input_modes and stated not in input_modes:
        raise ContentTypeNotSupportedError(f"message.parts: this agent takes {_accepted(input_modes)}")


def _is_content(part: Part) -> bool:
    """Return whether the part contains non-text content itself, and not only a URL."""
    return part.HasField("data") or part.HasField("raw")


def _accepted(input_modes: Collection[str]) -> str:
    return ", ".join(sorted(input_modes)) if {*input_modes} - {_TEXT} else "text only"


def _check_reference(part: Part, stated: str) -> None:
    if not stated:
        sentence = "message.parts: this agent takes text only: set the mediaType of a file that is given by its URL"
        raise ContentTypeNotSupportedError(sentence)
    check_id(part.filename, field="message.parts.filename")
    check_id(part.media_type, field="message.parts.mediaType")
    try:
        target_of(part.url)
    except UnusableUrl as error:
        raise InvalidParamsError(f"message.parts.url: {error}") from None


def text_of(message: Message) -> str:
    """Return the text for the model: texts, named files between marker lines, and the URLs of other files."""
    return "\n".join(_told(part) for part in message.parts if part.HasField("text") or part.HasField("url"))


def pictures_of(message: Message) -> tuple[Image, ...]:
    """Return the images of the message. Only agents with vision declare image media types."""
    raw = ((_kind(part), part.raw) for part in message.parts if part.HasField("raw"))
    return tuple(Image(kind, data) for kind, data in raw if kind.startswith("image/"))


def _kind(part: Part) -> str:
    """Return the media type of the part, without parameters and in lower case."""
    return part.media_type.partition(";")[0].strip().lower()


def _told(part: Part) -> str:
    if part.HasField("text"):
        return _attached(part.filename, part.text) if part.filename else part.text
    name = f"{part.filename}, " if part.filename else ""
    return f"[A file that was not fetched: {name}{part.media_type}, {part.url}]"


def _attached(filename: str, text: str) -> str:
    """Return the text of a named file between two marker lines, which show that the user did not write it."""
    name = "".join(each for each in filename if each.isprintable() and each not in "[]")[:MAX_ID]
    inside = _FILE_MARK.sub(r" \1", text)
    return f"[Attached file: {name}]\n{inside}\n[End of the attached file]"


_FILE_MARK: Final = re.compile(r"^[ \t]*(\[(?:attached|end of the attached))", re.IGNORECASE | re.MULTILINE)
"""A line of a file that looks like one of the marker lines."""


def metadata_of(request: SendMessageRequest) -> dict[str, Any]:
    """Return the metadata of the message, overridden by the metadata of the request."""
    if not (request.message.metadata.fields or request.metadata.fields):
        return {}
    return {**MessageToDict(request.message.metadata), **MessageToDict(request.metadata)}


def claim_of(owner: str, request: SendMessageRequest) -> Claim:
    """Return the deduplication key of a request. The key does not depend on the configuration of the response."""
    said = request.message.SerializeToString(deterministic=True)
    around = request.metadata.SerializeToString(deterministic=True)
    digest = hashlib.sha256(len(said).to_bytes(8) + said + around).digest()
    return Claim(owner=owner, message_id=request.message.message_id, digest=digest)


def further(request: SendMessageRequest, called: str) -> SendMessageRequest:
    """Add a message id, derived from the request id, to a later message of a caller without message ids.

    Without a request id, the message gets a random id and never counts as a retransmission.
    """
    named = SendMessageRequest()
    named.CopyFrom(request)
    name = uuid5(NAMESPACE_OID, f"{request.message.task_id}\n{called}") if called else uuid4()
    named.message.message_id = str(name)
    return named


def addressed(request: SendMessageRequest, task: Task, *, activated: Iterable[str] = ()) -> Message:
    """Return the message as the task stores it. It includes the request's metadata, which resumed work needs.

    Args: `activated` are extensions that the header of the request has activated.
    """
    kept = Message()
    kept.CopyFrom(request.message)
    kept.task_id, kept.context_id = task.id, task.context_id
    kept.extensions.extend(uri for uri in activated if uri not in kept.extensions)
    if request.metadata.fields:
        kept.metadata.update(MessageToDict(request.metadata))
    # Only the server may set the identity of the person who answers, and the agents of the calling chain. A caller's
    # values must not be trusted.
    for key in (ANSWER, CALLERS):
        if key in kept.metadata.fields:
            del kept.metadata.fields[key]
    return kept
