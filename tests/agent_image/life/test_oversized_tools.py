"""An MCP server whose tools would fill the model's window: the agent leaves them out and names them."""

import httpx
import pytest
from mcp.server.fastmcp import FastMCP
from tests.support.machine import ceiling


@pytest.fixture
def library(serve):
    server = FastMCP("library", host="127.0.0.1", port=1, stateless_http=True, json_response=True)

    def lend_book(volume: int) -> str:
        return f"Volume {volume} is lent."

    server.add_tool(lend_book, name="lend_book", description="Lend a book.")
    server.add_tool(lend_book, name="recite_all", description="Recite. " * 262_144)
    with serve(server.streamable_http_app()) as port:
        yield {"name": "library", "url": f"http://127.0.0.1:{port}/mcp"}


async def status_of(guest):
    async with httpx.AsyncClient(base_url=guest.ops_url, timeout=ceiling()) as http:
        return (await http.get("/status")).json()["mcpServers"]


async def test_oversized_tool_description_is_omitted_and_named(agent, states, library, caplog):
    async with agent(mcpServers=[library]) as guest:
        task = await guest.say("Lend book 3")
        (server,) = await status_of(guest)
        used = await guest.metric('llm_tokens_total{direction="input",model="offline"}')
    assert states(task) == "completed"
    assert (server["tools"], server["oversized"]) == (1, ["recite_all"])
    assert used < 8000
    (line,) = [record for record in caplog.records if "omitted because they are too large" in record.message]
    assert line.tools["library__recite_all"] > 500_000
