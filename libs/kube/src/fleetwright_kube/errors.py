"""The operator's errors, grouped by how the reconciler handles them. All other exceptions are retried with backoff.

OperatorError
├── RetryLaterError                  expected for a short time; retried after a fixed delay
│   └── UnfinishedDeletionError      a child with this name is being deleted, or waits for the garbage collector
├── TerminalError                    a user must act; retried slowly or after a change
│   └── BlockedChildError            a child cannot be written; a condition has the reason
│       └── OwnershipConflictError   an object with the name of a child exists and is not managed by Fleetwright
└── ApiError                         an error response of the API server, by status
    ├── NotFoundError                404
    ├── ConflictError                409
    ├── GoneError                    410
    ├── ForbiddenError               403
    └── InvalidRequestError          422, 400, and 500 for a malformed body; the same request will never succeed
"""

from typing import ClassVar, Literal


class OperatorError(Exception):
    """The base class of all errors that this package defines."""


class RetryLaterError(OperatorError):
    def __init__(self, seconds: float, message: str) -> None:
        super().__init__(message)
        self.seconds = seconds


class UnfinishedDeletionError(RetryLaterError):
    def __init__(self, message: str) -> None:
        super().__init__(1.0, message)


class TerminalError(OperatorError):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BlockedChildError(TerminalError):
    def __init__(self, reason: Literal["Conflict", "Terminating"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OwnershipConflictError(BlockedChildError):
    def __init__(self, kind: str, name: str, *, owner: str = "") -> None:
        """Args: `owner` is `<Kind> <name>` of the object's controller, if it has one.

        The message then does not advise deleting the object.
        """
        whose = f"belongs to {owner}. Rename one of the two" if owner else "is not managed by Fleetwright"
        remedy = "" if owner else ". Rename or delete it"
        super().__init__("Conflict", f"{kind} {name!r} already exists and {whose}{remedy}")


class ApiError(OperatorError):
    status: ClassVar[int] = 0

    def __init__(self, message: str, *, code: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code or self.status
        self.message = message
        self.retry_after = retry_after


class NotFoundError(ApiError):
    status = 404


class ConflictError(ApiError):
    status = 409


class GoneError(ApiError):
    status = 410


class ForbiddenError(ApiError):
    status = 403


class InvalidRequestError(ApiError):
    status = 422


_MALFORMED = ("failed to create typed patch object", "unable to convert unstructured object to")
"""Parts of the messages of permanent errors that the API server reports with status 500.

The causes are a duplicate list key, an unknown field, or a text that is not a quantity.
"""


def api_error(code: int, message: str, *, retry_after: float | None = None) -> ApiError:
    """Return the error for a response of this status."""
    kinds = {
        404: NotFoundError,
        409: ConflictError,
        410: GoneError,
        403: ForbiddenError,
        422: InvalidRequestError,
        400: InvalidRequestError,
    }
    kind = kinds.get(code, ApiError)
    if code == 500 and any(sign in message for sign in _MALFORMED):
        kind = InvalidRequestError
    return kind(message, code=code, retry_after=retry_after)
