"""Fixtures for push: a real receiver with scripted responses, and an agent that may send to it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_agent.server.push.service import DeliveryTimes

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
HANG = 0
"""A scripted status that means no response."""


@dataclass
class Receiver:
    """A receiver that answers with the scripted statuses, repeats the last one, and records the requests."""

    script: list[int]
    seconds: float = 0.0
    host: str = "127.0.0.1"
    port: int = 0
    heard: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    location: str = ""
    most_at_once: int = 0
    _now: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    @property
    def states(self) -> list[str]:
        return [body["task"]["status"]["state"].removeprefix("TASK_STATE_") for _, body in self.heard]

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head.split("\r\n")[1:-2])}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                await self._answer(headers, body, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, headers: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        status = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        async with self._changed:
            self.heard.append((headers, body))
            self.at.append(asyncio.get_running_loop().time())
            self._changed.notify_all()
        await asyncio.sleep(self.seconds if status != HANG else 3600)
        self._now -= 1
        location = f"Location: {self.location}\r\n" if self.location else ""
        writer.write(f"HTTP/1.1 {status} X\r\n{location}Content-Length: 0\r\n\r\n".encode())
        await writer.drain()

    async def until(self, number: int) -> None:
        """Wait until the receiver has that many notifications."""
        async with within("the receiver gets the notifications"), self._changed:
            await self._changed.wait_for(lambda: len(self.heard) >= number)

    async def until_state(self, state: str) -> None:
        async with within("the receiver is notified of the state"), self._changed:
            await self._changed.wait_for(lambda: state in self.states)


Receive = Callable[..., Awaitable[Receiver]]


@pytest.fixture
async def receive(process_ring: None) -> AsyncIterator[Receive]:
    """Start a receiver with a script of statuses, and stop it after the test."""
    servers: list[asyncio.Server] = []

    async def start(*script: int, host: str = "127.0.0.1", port: int = 0, **options: Any) -> Receiver:
        receiver = Receiver(list(script) or [200], host=host, **options)
        server = await asyncio.start_server(receiver, host, port)
        servers.append(server)
        receiver.port = server.sockets[0].getsockname()[1]
        return receiver

    yield start
    for server in servers:
        server.close()


OpenPush = Callable[..., Any]


@pytest.fixture
def open_push(mounted: Any, open_door: Any, documents: Any) -> OpenPush:
    """Start an agent that may send to these receivers, with short retry delays by default."""

    async def start(
        *receivers: Receiver,
        script: Any = None,
        cidrs: Sequence[str] = (),
        times: DeliveryTimes | None = None,
        config: dict[str, Any] | None = None,
        **seams: Any,
    ) -> Any:
        mount_push(mounted, documents, receivers, cidrs=cidrs, **(config or {}))
        turn = {"script": script} if script else {}
        short = DeliveryTimes(debounce=0.1, attempt=2.0, pauses=(0.05, 0.1))
        return await open_door(**turn, push_times=times or short, **seams)

    return start


def mount_push(
    mounted: Any, documents: Any, receivers: Sequence[Receiver], *, cidrs: Sequence[str] = (), **config: Any
) -> None:
    hosts = [{"host": each.host, "port": each.port} for each in receivers]
    push = {"keyFile": "push/keys", "allowedHosts": hosts, "allowedCidrs": list(cidrs)}
    mounted.write(mounted.layout.config_file, documents(push=push, **config))
    keys = mounted.layout.configuration / "push/keys"
    keys.parent.mkdir(parents=True, exist_ok=True)
    keys.write_text(KEY + "\n")


@pytest.fixture
def mount() -> Callable[..., None]:
    return mount_push
