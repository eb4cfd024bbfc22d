"""An agent as a process: its two ports, and what a client and a kubelet ask."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.support.agent.fork_server import ForkedProcess
from tests.support.waiting import within

HEADERS = {"A2A-Version": "1.0", "Authorization": "Bearer token-of-default"}


def serve_arguments(root: Path, ports: Sequence[int]) -> list[str]:
    """Return the arguments of `fleetwright-agent` that serve the mounted files of `root` on two loopback ports."""
    return ["serve", "--root", str(root), "--host", "127.0.0.1", "--port", str(ports[0]), "--ops-port", str(ports[1])]


async def end_process(process: asyncio.subprocess.Process | ForkedProcess) -> None:
    """Kill the process if it still runs, and wait for its end."""
    if process.returncode is None:
        process.kill()
    await process.wait()


@dataclass
class AgentProcess:
    process: asyncio.subprocess.Process | ForkedProcess
    a2a: httpx.AsyncClient
    ops: httpx.AsyncClient

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer: dict[str, Any] = (await self.a2a.post("/a2a", json=body)).json()
        return answer

    async def say(self, text: str, identifier: str, *, now: bool = False, **message: str) -> dict[str, Any]:
        body = {"messageId": identifier, "role": "ROLE_USER", "parts": [{"text": text}]} | message
        answer = await self.call("SendMessage", {"message": body, "configuration": {"returnImmediately": now}})
        task: dict[str, Any] = answer["result"]["task"]
        return task

    async def events(self, text: str, identifier: str = "") -> AsyncIterator[dict[str, Any]]:
        message = {"messageId": identifier or f"stream {text}", "role": "ROLE_USER", "parts": [{"text": text}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
        async with self.a2a.stream("POST", "/a2a", json=body) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])["result"]

    async def reason(self) -> str:
        """Return the reason from `/readyz`, once the agent reports one."""
        async with within("the agent says why it is not ready"):
            while True:
                with suppress(httpx.TransportError):
                    answer = await self.ops.get("/readyz")
                    if answer.status_code == 503 and "starting" not in answer.text:
                        return answer.text
                await asyncio.sleep(0.02)

    async def ready(self) -> None:
        async with within("the agent is ready"):
            while True:
                try:
                    if (await self.ops.get("/readyz")).status_code == 200:
                        assert self.process.returncode is None, "another program answers on the port of the agent"
                        return
                except httpx.TransportError:
                    assert self.process.returncode is None, "the agent process exited"
                await asyncio.sleep(0.02)
