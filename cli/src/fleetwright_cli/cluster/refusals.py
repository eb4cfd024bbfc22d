"""Explains to people why the API server has refused a request. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from fleetwright_api.encoding.untrusted_json import read_json

_CONFLICT: Final = 409
_FIELD_CONFLICT: Final = "FieldManagerConflict"


class ApiRefusal(click.ClickException):
    """The API server refuses a request. The message is one line for the user, without a remedy."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class FieldConflict(ApiRefusal):
    """Fields of an applied object belong to other field managers, from which `force` takes them over."""


def refusal(subject: str, status: int | None, reason: str | None, body: str | bytes | None) -> ApiRefusal:
    """Return the error for a response. Args: `body` is that of the response, usually a Kubernetes Status."""
    try:
        document = read_json(body or "{}")
    except ValueError:
        document = {}
    answer = document if isinstance(document, dict) else {}
    if conflicts := list(_conflicts(answer)):
        return FieldConflict(f"{subject}: {', '.join(conflicts)}", _CONFLICT)
    return ApiRefusal(f"{subject}: {answer.get('message') or reason} (HTTP {status})", status or 0)


def _conflicts(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield each field that another field manager owns, with the manager."""
    details = answer.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, Mapping) and cause.get("reason") == _FIELD_CONFLICT:
            field = str(cause.get("field", "")).removeprefix(".")
            # The API server writes: conflict with "argocd-controller" using fleetwright.dev/v1alpha1
            quoted = str(cause.get("message", "")).split('"')
            yield f"{field} belongs to the field manager {quoted[1] if len(quoted) > 1 else 'of another program'}"
