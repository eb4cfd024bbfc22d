"""The operator reads the activity that the runtime reports on its status page."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from tests.support.waiting import within

from fleetwright_a2a.clock import Clock
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.process.application import Application
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_api.activity import Activity
from fleetwright_operator.status.report_parser import parse_report

TOKEN = "token-of-default"
NOON = 1_795_608_000
"""2026-11-25T12:00:00Z"""
CONFIG = {
    "version": 1,
    "revision": "0123456789",
    "name": "echo",
    "namespace": "team",
    "instructions": "Repeat.",
    "url": "http://echo.team.svc.cluster.local",
    "model": {"name": "m", "baseUrl": "http://m", "contextWindow": 1000, "maxOutputTokens": 100, "timeoutSeconds": 5},
}
CALLER = {"kind": "client", "name": "default", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}
CALLERS = {"version": 1, "callers": [CALLER]}


class Echo:
    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncIterator[Frame]:
        yield TurnDone(request.text)

    async def aclose(self) -> None:
        """Do nothing: the turn holds nothing."""


def agent(folder: Path, now: list[float]) -> Application:
    layout = Layout(root=folder)
    for path, document in (
        (layout.config_file, CONFIG),
        (layout.callers_file, CALLERS),
        (layout.card_file, {"name": "echo"}),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
    layout.memory.mkdir(parents=True)
    config = AgentConfig.model_validate(CONFIG)
    clock = Clock(now_ns=lambda: int(now[0] * 1e9))
    turn: Any = Echo()
    return create_app(config, layout=layout, turn=turn, log=MemoryTaskLog(), storage=memory_storage(), clock=clock)


def client(app: Any) -> httpx.AsyncClient:
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://echo", headers=headers)


async def read(app: Application, at: int) -> Activity:
    """Return the activity as the operator reads it from the page."""
    async with client(app.ops) as ops:
        activity = parse_report((await ops.get("/status")).json(), read_at=at).activity
    assert activity is not None
    return activity


async def test_operator_reads_the_activity_of_a_real_agent(tmp_path: Path) -> None:
    now = [float(NOON)]
    app = agent(tmp_path, now)
    await app.start()
    started = await read(app, NOON)
    assert started == Activity(last_active=NOON, scraped_at=None, wakes_at=None, read_at=NOON)

    now[0] = NOON + 60.5
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    async with client(app.a2a) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        answer = (await http.post("/a2a", json=body)).json()
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    async with client(app.ops) as ops:
        await ops.get("/metrics")
    async with within("the report shows rest and the next wake"):
        while (spoken := await read(app, NOON + 62)).is_busy or spoken.wakes_at is None:  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0)  # The run is about to end, and the first maintenance round is under way.
    assert (spoken.last_active, spoken.scraped_at) == (NOON + 61, NOON + 60)
    assert spoken.wakes_at > NOON + 86_400
    await app.drain()
    await app.aclose()
