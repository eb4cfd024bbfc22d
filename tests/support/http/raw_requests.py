"""Sends the raw requests of `requests.toml` over a socket, and compares the answers with those of the file."""

import asyncio
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import within

LARGE_BODIES = "Large bodies"
"""The group of requests that ports without such bodies answer before they read them, so that the answer may be lost."""
_FILE = Path(__file__).with_name("requests.toml")
_SEGMENT = "<|>"
_SEGMENT_SECONDS = 0.01
_READ_LIMIT = 1024 * 1024
_ENDLESS_BYTES = 256 * 1024 * 1024
"""More than a server reads before it closes, and the buffers of both kernels hold."""


@dataclass(frozen=True, slots=True)
class TestedPort:
    """A port, what a good request to it looks like, and what it answers otherwise than the other ports."""

    port: int
    get: str
    """The path of a GET that needs no credential, and whose answer has the status 200."""
    post: str
    token: str
    get_status: int = 200
    head_status: int = 200
    post_status: int = 200
    json_status: int | None = None
    """The status of a POST with another JSON object; that of a good POST if unset."""
    post_text: bytes = b""
    """A part of the answer to a good POST that proves that the body has arrived."""
    body: str = "{}"
    post_headers: str = ""
    """Further headers of a good POST, each with its line end."""
    exceptions: Mapping[str, list[int | str]] = field(default_factory=dict)
    """The answers that differ from those in the file, by the name of the request."""
    __test__ = False


@dataclass(frozen=True, slots=True)
class RawRequest:
    name: str
    group: str
    raw: str
    answers: list[int | str]
    then: str
    fill: dict[str, Any] = field(default_factory=dict)
    body: str = ""
    times: int = 1
    bodiless: bool = False
    interim: bool = False

    def segments(self, port: TestedPort) -> list[bytes]:
        """Return the bytes of each TCP segment."""
        body = self.body or port.body
        text = self.raw.replace("<FILL>", self.fill.get("text", "") * self.fill.get("times", 0))
        for mark, value in {
            "<GET>": port.get,
            "<POST>": port.post,
            "<AUTH>": f"Authorization: Bearer {port.token}\r\n{port.post_headers}",
            "<LENGTH>": str(len(body)),
            "<CHUNK>": f"{len(body):x}",
            "<HALF>": body[: len(body) // 2],
            "<BODY>": body,
        }.items():
            text = text.replace(mark, value)
        return [segment.encode("latin-1") for segment in text.split(_SEGMENT)]

    def wanted(self, port: TestedPort) -> list[str]:
        """Return the answers, and what happens to the connection after them."""
        statuses = {
            "get": str(port.get_status),
            "head": str(port.head_status),
            "post": f"{port.post_status} {port.post_text.decode()}".strip(),
            "json": str(port.post_status if port.json_status is None else port.json_status),
        }
        answers = port.exceptions.get(self.name, self.answers)
        first, *others = [statuses[each] if isinstance(each, str) else str(each) for each in answers]
        return [*(["100"] if self.interim and port.post_text else []), *[first] * self.times, *others, self.then]


def read_requests() -> dict[str, list[RawRequest]]:
    """Return the requests of the file by their group."""
    groups: dict[str, list[RawRequest]] = {}
    for entry in tomllib.loads(_FILE.read_text())["request"]:
        groups.setdefault(entry["group"], []).append(RawRequest(**entry))
    return groups


async def find_differences(port: TestedPort, requests: list[RawRequest]) -> dict[str, dict[str, list[str]]]:
    """Return the wanted and the given answers of each request whose answers differ."""
    found = {}
    for request in requests:
        wanted = request.wanted(port)
        given = await _exchange(port, request)
        if given != wanted:
            found[request.name] = {"wanted": wanted[-5:], "given": given[-5:]}
    return found


async def _exchange(port: TestedPort, request: RawRequest) -> list[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port, limit=_READ_LIMIT)
    answers: list[str] = []
    count = len(request.wanted(port)) - 1
    try:
        async with within(f"{request.name} is answered", shown=lambda: answers[-5:]):
            for segment in request.segments(port):
                writer.write(segment)
                await writer.drain()
                await asyncio.sleep(_SEGMENT_SECONDS if _SEGMENT in request.raw else 0)
            while len(answers) < count or request.then == "closed":
                answers.append(await _read_answer(reader, port, has_body=bool(answers) or not request.bodiless))
                if answers[-1] == "closed":
                    return answers
            return [*answers, "half" if request.then == "half" else await _state(reader, writer, port)]
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        return [*answers, type(error).__name__]
    finally:
        writer.transport.abort()


async def _state(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: TestedPort) -> str:
    """Send another request on the connection, and return `open` if only this request is answered."""
    writer.write(f"GET {port.get} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answers = [await _read_answer(reader, port), await _read_answer(reader, port)]
    return "open" if answers == [str(port.get_status), "closed"] else f"open, then {answers}"


async def _read_answer(reader: asyncio.StreamReader, port: TestedPort, *, has_body: bool = True) -> str:
    """Return the status of the next response and the text that a good POST is known by, or `closed`."""
    line = await reader.readline()
    if not line:
        return "closed"
    protocol, status, *_ = line.split(b" ", 2)
    assert protocol == b"HTTP/1.1", line
    headers = {}
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip()
    body = b""
    if has_body and status not in {b"100", b"204", b"304"}:
        body = await _read_body(reader, headers)
    is_good = port.post_text and port.post_text in body
    return f"{status.decode()} {port.post_text.decode()}" if is_good else status.decode()


async def _read_body(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> bytes:
    if b"content-length" in headers:
        return await reader.readexactly(int(headers[b"content-length"]))
    assert headers.get(b"transfer-encoding") == b"chunked", headers
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body


async def send_endless_body(port: TestedPort) -> int:
    """Send a body in chunks of one byte, without a credential. Return the bytes sent until the connection ended."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    head = (
        f"POST {port.post} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    sent, piece = 0, b"1\r\nx\r\n" * 1000
    try:
        async with within("the server refuses the request and closes the connection"):
            await _read_answer(reader, port)
            while sent < _ENDLESS_BYTES:
                writer.write(piece)
                sent += len(piece)
                await writer.drain()
    except ConnectionError:
        return sent
    finally:
        writer.transport.abort()
    raise AssertionError(f"the server has read {sent} bytes of a refused body")
