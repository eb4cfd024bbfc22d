"""Records the writes for one Agent, so that a bare client can repeat exactly these.

The values of that Agent (its name, namespace, uid and version) become placeholders, which are filled in for each other
Agent.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from aiohttp import web

NAME, SPACE = "sample-0000", "bench-sample"
_UID, _VERSION = "{uid}", "{version}"


@dataclass(frozen=True)
class Write:
    method: str
    path: str
    content: str
    body: str

    def filled(self, *, name: str, space: str, uid: str, version: str) -> "Write":
        def fill(text: str) -> str:
            named = text.replace(NAME, name).replace(SPACE, space)
            return named.replace(_UID, uid).replace(_VERSION, version)

        return Write(self.method, fill(self.path), self.content, fill(self.body))


class Recorder:
    """Records every write of an operator, and keeps those for the sample."""

    def __init__(self) -> None:
        self._writes: list[Write] = []

    def hear(self, request: web.Request, body: bytes) -> None:
        if NAME in request.path:
            content = request.headers.get("Content-Type", "application/json")
            self._writes.append(Write(request.method, request.path_qs, content, body.decode()))

    def save(self, file: Path, *, uid: str, version: str) -> int:
        """Save the writes up to the status with Programmed, at which the operator's time ends too."""
        last = next(place for place, write in enumerate(self._writes) if "/status" in write.path)
        whole = [
            Write(write.method, write.path, write.content, write.body.replace(uid, _UID).replace(
                f'"resourceVersion": "{version}"', f'"resourceVersion": "{_VERSION}"'))
            for write in self._writes[: last + 1]
        ]  # fmt: skip
        file.write_text(json.dumps([asdict(write) for write in whole]))
        return len(whole)


def load(file: Path) -> list[Write]:
    return [Write(**write) for write in json.loads(file.read_text())]
