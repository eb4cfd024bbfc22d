"""Replays a recorded response of a model's provider, so that a report about a provider can be reproduced.

A recording is a YAML file. Its field `answer` holds `status`, `headers` and `body` as they were on the wire, and `cut`
if the connection ended before the response did. Other fields are ignored.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from starlette.responses import Response, StreamingResponse

_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "connection", "content-encoding"})
"""Headers that the server sets itself."""
_EVENT_END: Final = re.compile(r"(?<=\n\n)")


class InvalidRecording(ValueError):  # noqa: N818 - the name states the condition
    """The file is no recording. The text names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class Recording:
    status: int
    headers: Mapping[str, str]
    body: str
    is_cut: bool
    """The connection breaks after the body."""

    def build_response(self) -> Response:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _FRAMING}
        return StreamingResponse(self._stream_body(), self.status, headers)

    async def _stream_body(self) -> AsyncIterator[bytes]:
        for event in _EVENT_END.split(self.body):
            yield event.encode()
            await asyncio.sleep(0)
        if self.is_cut:
            raise ConnectionResetError("the recording ends here")


def load_recording(file: Path) -> Recording:
    """Read a recording. Raises: InvalidRecording."""
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise InvalidRecording(f"{file}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidRecording(f"{file} is not YAML: {error}") from error
    answer = document.get("answer") if isinstance(document, Mapping) else None
    if not isinstance(answer, Mapping):
        raise InvalidRecording(f"{file}: answer must be an object with status, headers and body")
    status, body = answer.get("status", 200), answer.get("body")
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise InvalidRecording(f"{file}: answer.status must be a number from 200 to 599")
    if not isinstance(body, str):
        raise InvalidRecording(f"{file}: answer.body must be a text; write it after `body: |+`")
    headers = answer.get("headers", {})
    if not isinstance(headers, Mapping):
        raise InvalidRecording(f"{file}: answer.headers must be an object with names and texts")
    texts: dict[str, Any] = {str(name): str(value) for name, value in headers.items()}
    return Recording(status, texts, body, is_cut=answer.get("cut") is True)
