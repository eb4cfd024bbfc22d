"""The errors of the client for chat completions.

They hold what the provider said about the failure. They hold no request, because a request contains the key.
"""

from collections.abc import Mapping
from typing import Any


class CompletionError(Exception):
    """The provider reported an error inside a stream, or its stream is not valid."""

    def __init__(self, message: str, code: str | None = None) -> None:
        """Args: `code` is the provider's own name of the error, such as `context_length_exceeded`."""
        super().__init__(message)
        self.message = message
        self.code = code


class CompletionStatusError(CompletionError):
    """The provider answered with another status than success."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Args: `headers` are those of the response. Lookups in them ignore the case, or their names are lower case."""
        super().__init__(message, code)
        self.status_code = status
        self.headers = headers or {}


class CompletionConnectionError(CompletionError):
    """The connection could not be opened, or it broke."""

    def __init__(self) -> None:
        super().__init__("Connection error.")


class CompletionTimeoutError(CompletionConnectionError):
    """The provider did not accept the connection, or sent nothing, in time."""

    def __init__(self) -> None:
        CompletionError.__init__(self, "Request timed out.")


def stated_error(body: Any) -> tuple[str, str | None]:
    """Return the message and the code of a decoded error body. The message is empty if the body states none.

    OpenAI nests both under `error`. Some compatible servers have a text there, or no such field.
    """
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return (error if isinstance(error, str) else ""), None
    message, code = error.get("message"), error.get("code")
    return (message if isinstance(message, str) else ""), (None if code is None else str(code))
