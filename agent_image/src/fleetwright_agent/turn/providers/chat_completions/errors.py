"""The errors of the client for chat completions.

They hold what the provider said about the failure. They hold no request, because a request contains the key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class StatedError:
    """The text and the codes in the body of an error."""

    message: str = ""
    """Empty if the body has no text."""
    codes: tuple[str, ...] = ()
    """The provider's names and numbers of the error, such as `context_length_exceeded`, the most exact one first."""


class CompletionError(Exception):
    """The provider reported an error inside a stream, or its stream is not valid."""

    def __init__(self, message: str, codes: tuple[str, ...] = ()) -> None:
        """Args: `codes` are the provider's names and numbers of the error."""
        super().__init__(message)
        self.message = message
        self.codes = codes


class EarlyEndError(CompletionError):
    """The stream ended, but the provider has not said that it is complete."""

    def __init__(self) -> None:
        super().__init__("The answer ended before it was complete.")


class CompletionStatusError(CompletionError):
    """The provider answered with another status than success."""

    def __init__(
        self, status: int, message: str, codes: tuple[str, ...] = (), headers: Mapping[str, str] | None = None
    ) -> None:
        """Args: `headers` are those of the response. Lookups in them ignore the case, or their names are lower case."""
        super().__init__(message, codes)
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


_CODES: Final = ("code", "type", "error_type", "status", "status_code")
"""The fields with names and numbers of an error, the most exact one first."""
_MOST_DEPTH: Final = 8
_MOST_ERRORS: Final = 5
"""The errors of a list that are read."""
_NESTS: Final = ("error", "errors", "base_resp")
"""The fields with the whole error. Cloudflare has a list, and MiniMax a field that successful answers have too."""
_TEXTS: Final = ("message", "detail", "msg", "error_msg", "status_msg")
"""The fields with the text of an error. FastAPI uses `detail`, and `msg` in the items of a list."""


def read_error(event: Any, levels: int = _MOST_DEPTH) -> StatedError | None:
    """Return the error that an event of a stream, or a whole answer with status 200, consists of; None if it has none.

    vLLM and Mistral send an object of the type `error`, FastAPI a `detail`, and Google a list of errors.
    """
    if isinstance(event, list) and event and levels > 0:
        return read_error(event[0], levels - 1)
    if not isinstance(event, Mapping):
        return None
    is_error = event.get("object") == "error" or event.get("type") == "error"
    has_only_text = "choices" not in event and any(event.get(name) for name in _TEXTS)
    return describe_error(event) if event.get("error") or is_error or has_only_text else None


def describe_error(body: Any, levels: int = _MOST_DEPTH) -> StatedError:
    """Return what a decoded error body says. What is nested too deeply is not read.

    OpenAI nests the text and the codes under `error`. Some compatible servers have a text there, or no such field. Some
    bodies are lists.
    """
    if isinstance(body, str):
        return StatedError(body)
    if isinstance(body, list) and levels > 0:
        return _join_errors([describe_error(each, levels - 1) for each in body[:_MOST_ERRORS]])
    if not isinstance(body, Mapping) or levels <= 0:
        return StatedError()
    nested = describe_error(next((body[name] for name in _NESTS if body.get(name)), None), levels - 1)
    texts = (_read_text(body.get(name), levels - 1) for name in _TEXTS)
    text = _join_texts(body.get("loc"), next(filter(None, texts), ""))
    metadata = body.get("metadata")
    if isinstance(metadata, Mapping) and isinstance(raw := metadata.get("raw"), str):
        text = f"{text}: {raw}"  # OpenRouter copies the error of the provider behind it.
    codes = (*nested.codes, *(str(body[name]) for name in _CODES if _is_code(body.get(name))))
    return StatedError(nested.message or text, tuple(dict.fromkeys(codes)))


def _join_errors(errors: Sequence[StatedError]) -> StatedError:
    texts = "; ".join(each.message for each in errors if each.message)
    return StatedError(texts, tuple(dict.fromkeys(code for each in errors for code in each.codes)))


def _read_text(value: Any, levels: int) -> str:
    if isinstance(value, str):
        return value
    return describe_error(value, levels).message if isinstance(value, Mapping | list) else ""


def _join_texts(place: Any, text: str) -> str:
    """Return the text of an error with the place of the invalid value, such as `body.temperature`."""
    steps = ".".join(str(step) for step in place) if isinstance(place, list) else ""
    return f"{steps}: {text}" if steps and text else text


def _is_code(value: Any) -> bool:
    return (isinstance(value, str) and bool(value)) or (isinstance(value, int) and not isinstance(value, bool))
