"""Accepted output modes: filters answers by the media types that a caller accepts. Pure.

A caller that names no media types accepts everything. Parts with other media types are removed from the response, but
stay in the stored task. A request is rejected if the agent cannot produce any accepted media type.
"""

from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from typing import Any, Final, TypeVar

from a2a.types.a2a_pb2 import Message, Part, SendMessageRequest, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from fleetwright_a2a.card import Card
from fleetwright_a2a.extensions import SKILL_HINT
from fleetwright_a2a.task_events import Event
from fleetwright_agent.server.tasks.messages import metadata_of

MOST: Final = 64
_FIELD: Final = "acceptedOutputModes"
_WORDS: Final = {"text": "text/*", "data": "application/json", "*": "*/*"}
"""The words that clients of A2A 0.1 and 0.2 use for media types."""
_TEXT: Final = ("text/plain", "text/markdown")
"""The media types of a text part that declares none. It may contain Markdown, which is also readable as plain text."""
_BYTES: Final = "application/octet-stream"
Told = TypeVar("Told", bound=Event | Task)


class OutputModes:
    """The media types or ranges that one caller accepts; an empty set accepts everything."""

    def __init__(self, stated: Iterable[str]) -> None:
        said = [mode.partition(";")[0].strip().lower() for mode in stated]
        self._modes = frozenset(_WORDS.get(mode, mode) for mode in said)

    def __bool__(self) -> bool:
        return bool(self._modes)

    def take(self, media_type: str) -> bool:
        kind = media_type.partition("/")[0]
        return not self._modes.isdisjoint((media_type, f"{kind}/*", "*/*"))

    def of(self, parts: Sequence[Part]) -> list[Part]:
        return [part for part in parts if any(map(self.take, _types(part)))]


def _types(part: Part) -> tuple[str, ...]:
    if part.media_type:
        return (part.media_type.partition(";")[0].strip().lower(),)
    if part.HasField("text"):
        return _TEXT
    return ("application/json",) if part.HasField("data") else (_BYTES,)


def check_output_modes(request: SendMessageRequest, card: Card) -> None:
    """Check that the agent can produce an accepted media type.

    Raises:
        InvalidParamsError: The request names too many media types.
        ContentTypeNotSupportedError: The agent cannot produce any accepted media type.
    """
    stated = request.configuration.accepted_output_modes
    if len(stated) > MOST:
        raise InvalidParamsError(f"{_FIELD} has more than {MOST} entries")
    given, accepted = offered(card, metadata_of(request)), OutputModes(stated)
    if accepted and given and not any(map(accepted.take, given)):
        raise ContentTypeNotSupportedError(f"{_FIELD}: this agent gives {', '.join(sorted(given))}")


def offered(card: Card, metadata: dict[str, Any]) -> Collection[str]:
    """Return the media types of possible answers, from the skill that the request names, or from the whole card."""
    hint = metadata.get(SKILL_HINT)
    if isinstance(hint, str):
        return card.skill_output_modes.get(hint, card.output_modes)
    return card.output_modes.union(*card.skill_output_modes.values())


def tailored(told: Told, accepted: OutputModes) -> Told | None:
    """Return an answer without the parts that the caller does not accept.

    Return None if no part of an event is left and more events follow. If no part of a final event is accepted, the
    event stays unchanged, because the caller would otherwise get no answer.
    """
    if not accepted:
        return told
    told = deepcopy(told)
    if isinstance(told, TaskArtifactUpdateEvent):
        return told if _cut(told.artifact, accepted) or told.last_chunk else None
    if isinstance(told, Task):
        for artifact in told.artifacts:
            _cut(artifact, accepted)
    if isinstance(told, Task | TaskStatusUpdateEvent):
        _cut(told.status.message, accepted)
    elif isinstance(told, Message):
        _cut(told, accepted)
    return told


def _cut(holder: Any, accepted: OutputModes) -> bool:
    """Remove parts that are not accepted, unless no part is accepted. Return whether any part is accepted."""
    taken = accepted.of(holder.parts)
    if taken and len(taken) < len(holder.parts):
        taken = deepcopy(taken)
        del holder.parts[:]
        holder.parts.extend(taken)
    return bool(taken)
