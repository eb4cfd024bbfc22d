"""The open questions that an agent lists at `/approvals`. The list is untrusted, so each field is validated.

The operator drops a question with an unusable id, digest or chain, because it could not bind a decision to it. It
shortens texts that are only shown, and replaces characters that could deceive a reader.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard
from urllib.parse import unquote

from fleetwright_api.call_authorization import Identity
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_kube.timestamps import parse_timestamp

MAX_OPEN: Final = 100
"""The largest number of open questions of one agent."""
MAX_ARGUMENTS: Final = 4096
"""The largest number of bytes of arguments that an Approval shows."""
_MAX_PROPERTIES: Final = 256
"""The largest number of arguments in the schema of Approvals."""
NOT_SERVED: Final = object()
"""What a client returns in place of a list if the agent does not have the route."""
_CHAIN: Final = 16
_ID: Final = 256
_VERSION: Final = 256
_TEXTS: Final = {"context": 256, "tool": 128, "title": 256, "requestedBy": 640}
_PREVIEW: Final = 4096
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?"
_AGENT: Final = re.compile(rf"agent:({_NAME})/({_NAME})")
_VIA: Final = " via "
_PERSON: Final = "user:"
_USERNAME: Final = 640
"""The longest username that an Approval can hold."""
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?Z")
_DECEPTIVE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters besides tab and line feed, and characters that change the direction of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenApproval:
    """One tool call that waits for a decision."""

    task: str
    context: str
    ask: str
    tool: str
    title: str
    preview: str
    arguments: Mapping[str, Any] | None
    digest: str
    requested_by: str
    chain: tuple[str, ...]
    created_at: int
    expires_at: int | None
    person: str | None = None
    """The username of the person who started the task; None if a client or an agent started it."""

    @property
    def agents(self) -> tuple[Identity, ...]:
        """The agents that the request came through, including the one that acts for a person."""
        acting = self.requested_by.rpartition(_VIA)[2]
        found = [match for each in (*self.chain, acting) if (match := _AGENT.fullmatch(each))]
        return tuple(dict.fromkeys((match[1], match[3]) for match in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalListing:
    """The answer to one poll."""

    version: str
    asks: tuple[OpenApproval, ...]


def parse_listing(document: Any, *, now: int) -> ApprovalListing | None:
    """Return the list of questions, or None if the answer is not such a list.

    Args: `now` replaces an unusable time of creation.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("open"), list):
        return None
    version = document.get("version")
    if not isinstance(version, str) or not 0 < len(version) <= _VERSION:
        return None
    found = [_ask(each, now) for each in document["open"][:MAX_OPEN]]
    return ApprovalListing(version=version, asks=tuple(ask for ask in found if ask is not None))


def _ask(told: Any, now: int) -> OpenApproval | None:
    if not isinstance(told, Mapping):
        return None
    task, ask, digest, chain = told.get("task"), told.get("ask"), told.get("argumentsDigest"), _chain(told.get("chain"))
    if not _is_id(task) or not _is_id(ask) or chain is None:
        return None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    person = _person(told.get("requestedBy"))
    if person is not None and len(person) > _USERNAME:
        return None  # No Approval could forbid this person to decide. The runtime accepts no such name.
    texts = {key: _shown(told.get(key), limit).replace("\n", " ") for key, limit in _TEXTS.items()}
    created = _time(told.get("createdAt"))
    return OpenApproval(
        task=task,
        context=texts["context"],
        ask=ask,
        tool=texts["tool"],
        title=texts["title"],
        preview=_shown(told.get("preview"), _PREVIEW),
        arguments=_arguments(told.get("arguments")),
        digest=digest,
        requested_by=texts["requestedBy"],
        chain=chain,
        created_at=now if created is None else created,
        expires_at=_time(told.get("expiresAt")),
        person=person,
    )


def _is_id(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _ID and value.isprintable()


def _person(requested_by: Any) -> str | None:
    """Return the username of the person who started the task. The runtime percent-encodes it."""
    if not isinstance(requested_by, str):
        return None
    principal = requested_by.partition(_VIA)[0]
    return unquote(principal.removeprefix(_PERSON)) if principal.startswith(_PERSON) else None


def _chain(value: Any) -> tuple[str, ...] | None:
    """Return the chain, or None if an entry is not an agent.

    A chain without this entry would let the agent decide about its own request.
    """
    if not isinstance(value, list) or len(value) > _CHAIN:
        return None
    named = [each for each in value if isinstance(each, str) and _AGENT.fullmatch(each)]
    return tuple(named) if len(named) == len(value) else None


def _arguments(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict) or len(value) > _MAX_PROPERTIES:
        return None
    return value if len(canonical_json(value).encode()) <= MAX_ARGUMENTS else None


def _shown(value: Any, limit: int) -> str:
    return _DECEPTIVE.sub("\ufffd", value[:limit]) if isinstance(value, str) else ""


def _time(value: Any) -> int | None:
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    try:
        return parse_timestamp(f"{match[1]}Z") if match else None
    except ValueError:
        return None
