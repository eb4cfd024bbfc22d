"""Reads requests to fork or name a conversation, or to undo file changes, from the metadata of a message."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from fleetwright_a2a.extensions import CONTEXT_FORK, CONTEXT_TITLE, WORKSPACE_UNDO

_MOST_ID: Final = 128
"""The largest number of characters of an id, and of a title."""
_DECEPTIVE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, the separators of lines and paragraphs, the controls and marks of bidirectional text, and lone
surrogates. A title may have other invisible characters, because emoji and some scripts need them."""
_CONTEXT: Final = "contextId"
_TASK: Final = "taskId"
_TITLE: Final = "title"


@dataclass(frozen=True, slots=True)
class ContextFork:
    """The history with which a new conversation starts."""

    context_id: str
    """The conversation that is continued."""
    task_id: str = ""
    """Its last task that the new conversation includes; empty for the whole conversation."""


@dataclass(frozen=True, slots=True)
class FilesRestored:
    """The files of the workspace that an undo has restored. This is a frame before `TurnDone`."""

    restored: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """The files that were not restored, each with the reason."""

    def payload(self) -> dict[str, Any]:
        skipped = [{"path": path, "reason": reason} for path, reason in self.skipped]
        return {"restored": list(self.restored), "skipped": skipped}

    @classmethod
    def load(cls, payload: Mapping[str, Any]) -> Self:
        skipped = tuple((each["path"], each["reason"]) for each in payload["skipped"])
        return cls(tuple(payload["restored"]), skipped)


def fork_of(metadata: Mapping[str, Any]) -> ContextFork | None:
    """Return the fork that a message asks for. Raises: ValueError: the data is malformed; the message says how."""
    if CONTEXT_FORK not in metadata:
        return None
    fields = _fields(metadata[CONTEXT_FORK], CONTEXT_FORK, required=_CONTEXT, optional=_TASK)
    return ContextFork(fields[_CONTEXT], fields.get(_TASK, ""))


def undo_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the first task whose changes a message undoes. Raises: ValueError: the data is malformed."""
    if WORKSPACE_UNDO not in metadata:
        return None
    return _fields(metadata[WORKSPACE_UNDO], WORKSPACE_UNDO, required=_TASK)[_TASK]


def title_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the title that a message gives to its conversation. Raises: ValueError: the data is malformed."""
    if CONTEXT_TITLE not in metadata:
        return None
    title = _fields(metadata[CONTEXT_TITLE], CONTEXT_TITLE, required=_TITLE)[_TITLE].strip()
    if all(unicodedata.category(each) in ("Cf", "Zs") for each in title):
        raise ValueError(f"metadata[{CONTEXT_TITLE!r}].{_TITLE} is blank; give it a text")
    return title


def _fields(value: object, uri: str, *, required: str, optional: str = "") -> dict[str, str]:
    named = f"metadata[{uri!r}]"
    if not isinstance(value, Mapping) or required not in value:
        raise ValueError(f"{named} must be an object with {required}")
    if unknown := [key for key in value if key not in (required, optional)]:
        raise ValueError(f"{named} has the unknown field {unknown[0][:_MOST_ID]!r}; remove it")
    for key, text in value.items():
        is_text = isinstance(text, str) and 0 < len(text) <= _MOST_ID
        if key == _TITLE and not (is_text and not _DECEPTIVE.search(text)):
            refused = "control characters, line breaks or marks of the direction of text"
            raise ValueError(f"{named}.{key} must be a text of 1 to {_MOST_ID} characters without {refused}")
        if key != _TITLE and not (is_text and text.isprintable()):
            raise ValueError(f"{named}.{key} must be a text of 1 to {_MOST_ID} printable characters")
    return dict(value)
