"""The request of a token exchange: a form with the tokens of an agent and the name of the agent to call. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from fleetwright_api.call_authorization import Identity

GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type
MEDIA_TYPE: Final = "application/x-www-form-urlencoded"
_PREFIX: Final = "/agents/"
_MOST_FIELDS: Final = 16
_MAX_TASK_ID: Final = 128


class OAuthError(Exception):
    """An error response (RFC 6749 §5.2, RFC 8693 §2.2.2)."""

    def __init__(self, code: str, sentence: str, *, status: int = 400, headers: dict[str, str] | None = None) -> None:
        """Args: `code` is the value of `error`; the caller reads `sentence` as `error_description`."""
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.status = status
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class ExchangeRequest:
    pod_token: str = field(repr=False)
    """The token of the pod that sends the request."""
    delegation: str = field(repr=False)
    """The delegation of the pod's task; empty if the agent calls for itself."""
    audience: str
    """The agent to call: `<namespace>/<name>`, or its URL at the gateway."""
    audience_task: str
    """The task of this agent that the caller will continue; empty if the caller will begin a task."""


def parse_form(body: bytes, content_type: str) -> ExchangeRequest:
    """Raises: OAuthError: a parameter is missing, repeated or not supported."""
    if content_type.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise OAuthError("invalid_request", f"Content-Type must be {MEDIA_TYPE}.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise OAuthError("invalid_request", f"The body must be a form with at most {_MOST_FIELDS} fields.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise OAuthError("invalid_request", "A parameter is repeated. Send each parameter once.")
    if found.get("grant_type") != GRANT:
        raise OAuthError("unsupported_grant_type", f"grant_type must be {GRANT}.")
    for name in ("subject_token", "audience"):
        if not found.get(name):
            raise OAuthError("invalid_request", f"{name} is missing.")
    if found.get("requested_token_type", ACCESS_TOKEN) != ACCESS_TOKEN:
        raise OAuthError("invalid_request", f"requested_token_type must be {ACCESS_TOKEN}.")
    actor = found.get("actor_token", "")
    for name in ("subject_token_type", *(["actor_token_type"] if actor else [])):
        if found.get(name) != JWT:
            raise OAuthError("invalid_request", f"{name} must be {JWT}.")
    subject = found["subject_token"]
    task = found.get("audience_task", "")
    if len(task) > _MAX_TASK_ID or not task.isprintable():
        sentence = f"audience_task must be the id of a task, with at most {_MAX_TASK_ID} printable characters."
        raise OAuthError("invalid_request", sentence)
    return ExchangeRequest(actor or subject, subject if actor else "", found["audience"], task)


def target_of(audience: str, bases: Sequence[str]) -> Identity | None:
    """Return the agent that an audience names, or None. Args: `bases` are the addresses of the gateway."""
    text = audience
    if "://" in audience:
        try:
            parts = urlsplit(audience)
        except ValueError:
            return None
        if f"{parts.scheme}://{parts.netloc}" not in bases or parts.query or parts.fragment:
            return None
        if not parts.path.startswith(_PREFIX):
            return None
        text = parts.path.removeprefix(_PREFIX).rstrip("/")
    namespace, _, name = text.partition("/")
    return (namespace, name) if namespace and name and "/" not in name else None
