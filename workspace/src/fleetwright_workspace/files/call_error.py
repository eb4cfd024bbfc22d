"""The error that a call of the runner ends with. Each code has one HTTP status."""

from __future__ import annotations

STATUS = {
    "bad_request": 400,
    "unauthorized": 401,
    "outside": 422,
    "not_found": 404,
    "changed": 409,
    "exists": 409,
    "too_large": 413,
    "is_directory": 422,
    "no_match": 422,
    "not_text": 422,
    "not_unique": 422,
    "executor_lost": 502,
    "executor_unavailable": 503,
    "quota": 507,
}


class CallError(Exception):
    """A call that cannot be answered. `details` stand beside the error in the response."""

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.details = details

    @property
    def status(self) -> int:
        return STATUS[self.code]
