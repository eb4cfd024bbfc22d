"""MCP servers that exit or flood the agent during a call, over A2A: the task continues and answers without them.

`tests/agent_image/tools/test_mcp_wire.py` covers the effect of each connection failure on a call.
"""

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from e2e.cluster.ports import free_port
from tests.support.waiting import within


@asynccontextmanager
async def garden(calls, end):
    """Start a server that ends each call in this way, and yield its port."""
    port = free_port()
    program = Path(__file__).with_name("frail_server.py")
    process = await asyncio.create_subprocess_exec(sys.executable, program, str(port), calls, end)
    try:
        async with within("the server listens"):
            while not await _listens(port):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.02)
        yield port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize(
    ("end", "says"),
    [
        pytest.param("dies", "broke the connection", id="dies"),
        pytest.param("floods", "sends more than this agent reads", id="floods"),
    ],
)
async def test_r6_task_completes_without_a_server_that_fails(agent, states, house, house_port, tmp_path, end, says):
    calls = tmp_path / "calls"
    async with garden(calls, end) as port:
        servers = [
            {"name": "garden", "url": f"http://127.0.0.1:{port}/mcp"},
            {"name": "house", "url": f"http://127.0.0.1:{house_port}/mcp"},
        ]
        async with agent(mcpServers=servers) as guest:
            task = await guest.say("Water plants with 2, then book table for 3")
            assert await guest.metric('tool_calls_total{outcome="error",tool="garden__water_plants"}') == 1
    assert states(task) == "completed"
    text = "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"] if "text" in part)
    assert says in text
    assert "A table for 3 is booked." in text
    assert house.ledger == ["table for 3"]
    assert calls.read_text() == "watered\n", "a call that may have had its effect is not repeated"
