"""Sessions with MCP servers: pagination, changed tool lists, restarts, and cancellation of abandoned calls."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
from e2e.cluster.ports import free_port
from mcp import types
from tests.support.agent.mcp_tools import ToolServer, serve_tools
from tests.support.waiting import within

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.mcp.circuit_breaker import CircuitBreaker
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.mcp.tool_cache import ServerTools, ToolCache
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.port import ToolCall, ToolError

pytestmark = pytest.mark.process

CALL = ToolCall({}, TurnRequest("o", "c", "t", "x"), lambda _: None)


@asynccontextmanager
async def _connected(port, *, allow=(), deny=(), **seams):
    server = {"name": "s", "url": f"http://127.0.0.1:{port}/mcp/", "allow": allow, "deny": deny}
    connection = McpConnection(McpServer.model_validate(server), Layout(), **seams)
    try:
        yield connection
    finally:
        await connection.aclose()


async def _names(connection):
    return [tool.name for tool in await connection.tools()]


async def test_mcp_tool_list_reads_every_page():
    async with serve_tools(ToolServer("a", "b", "c", "d", "e")) as port, _connected(port) as connection:
        assert await _names(connection) == ["s__a", "s__b", "s__c", "s__d", "s__e"]


OFFERS = [
    pytest.param((), (), ServerTools(3), id="everything is offered, and may be used"),
    pytest.param(("a", "b"), (), ServerTools(2), id="some may be used"),
    pytest.param(
        ("a", "z", "y"), (), ServerTools(1, ("y", "z")), id="a name that is allowed and not offered is missing"
    ),
    pytest.param((), ("a", "z"), ServerTools(2), id="a name that is denied is not missed"),
    pytest.param(("a", "z"), ("z",), ServerTools(1), id="nor one that is allowed and denied"),
    pytest.param(
        tuple(f"t{n:03}" for n in range(99)), (), ServerTools(0, tuple(f"t{n:03}" for n in range(20))), id="many"
    ),
]


@pytest.mark.parametrize(("allow", "deny", "wanted"), OFFERS)
async def test_mcp_tool_offer_is_known_after_the_first_handshake(allow, deny, wanted):
    offers = ToolCache()
    async with (
        serve_tools(ToolServer("a", "b", "c")) as port,
        _connected(port, allow=allow, deny=deny, tool_cache=offers) as it,
    ):
        assert offers.of("s") is None
        await it.tools()
    assert offers.of("s") == wanted


async def test_r6_endless_tool_list_is_limited():
    class Endless(ToolServer):
        async def _page(self, request):
            tool = types.Tool(name=f"t{request.params.cursor if request.params else 0}", inputSchema={"type": "object"})
            return types.ServerResult(types.ListToolsResult(tools=[tool], nextCursor="again"))

    async with serve_tools(Endless()) as port, _connected(port) as connection:
        assert len(await connection.tools()) <= 500


async def test_r6_tools_of_a_replaced_server_are_listed_again():
    async with _connected_after_restart() as connection:
        assert await _names(connection) == ["s__a", "s__b"]


@asynccontextmanager
async def _connected_after_restart():
    """Return a connection whose server restarted with one more tool, after a call that detected the restart."""
    async with serve_tools(ToolServer("a")) as port:
        connection = McpConnection(
            McpServer.model_validate({"name": "s", "url": f"http://127.0.0.1:{port}/mcp/"}), Layout()
        )
        (tool,) = await connection.tools()
    async with serve_tools(ToolServer("a", "b"), port=port):
        assert await tool.run(CALL) == "from a"
        yield connection
        await connection.aclose()


async def test_r6_tool_list_expires():
    now = [0.0]
    tools = ToolServer("a")
    async with serve_tools(tools) as port, _connected(port, clock=lambda: now[0]) as connection:
        assert await _names(connection) == ["s__a"]
        tools.names.append("b")
        assert await _names(connection) == ["s__a"]
        now[0] = 61
        assert await _names(connection) == ["s__a", "s__b"]


async def test_mcp_cancelled_call_is_reported_to_the_server():
    tools = ToolServer("wait")
    async with serve_tools(tools) as port, _connected(port) as connection:
        (tool,) = await connection.tools()
        calling = asyncio.create_task(tool.run(CALL))
        await tools.waiting.wait()
        calling.cancel()
        async with within("the client cancels the call"):
            await tools.cancelled.wait()
        assert await _names(connection) == ["s__wait"]


async def test_mcp_tool_names_are_sanitised_and_stay_unique():
    odd = ["a.b", "a/b", "x" * 80, "x" * 81]
    async with serve_tools(ToolServer(*odd)) as port, _connected(port) as connection:
        offered = await connection.tools()
        names = [tool.name for tool in offered]
        assert [await tool.run(CALL) for tool in offered] == [f"from {name}" for name in odd]
    assert len(set(names)) == 4
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in names)


async def test_mcp_connection_ignores_proxy_environment_variables(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    async with serve_tools(ToolServer("a")) as port, _connected(port) as connection:
        assert await _names(connection) == ["s__a"]


async def test_r6_silent_server_is_retried_after_a_pause():
    """The second request does not wait for an answer again."""
    now = [0.0]
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        port = silent.getsockname()[1]
        async with _connected(port, clock=lambda: now[0], discovery_seconds=5.0) as connection:
            with pytest.raises(McpUnreachable, match="did not answer"):
                await connection.tools()
            silent.setblocking(False)
            silent.accept()[0].close()
            with pytest.raises(McpUnreachable, match="did not answer"):
                await connection.tools()
            with pytest.raises(BlockingIOError):
                silent.accept()
            silent.close()
            now[0] = 31
            async with serve_tools(ToolServer("a"), port=port):
                assert await _names(connection) == ["s__a"]


async def test_mcp_probe_counts_all_tools_and_lists_up_to_the_limit(fork_server):
    names = [f"tool-{number:03}".ljust(128, "x") for number in range(600)]
    async with serve_tools(ToolServer(*names, page=100)) as port:
        entry = json.dumps({"name": "s", "url": f"http://127.0.0.1:{port}/mcp/"})
        ended = await asyncio.to_thread(fork_server.run, "probe", "mcp", entry)
    report = json.loads(ended.stdout.splitlines()[-1])
    assert (report["offered"], [tool["name"] for tool in report["tools"]]) == (600, names[:256])


async def test_r6_circuit_breaker_opens_after_three_unreachable_calls():
    """Three calls wait for an unreachable server; after that the breaker fails calls at once."""
    now, told = [0.0], []
    breaker = CircuitBreaker(clock=lambda: now[0], on_change=told.append)
    async with serve_tools(ToolServer("a")) as port:
        connection = McpConnection(
            McpServer.model_validate({"name": "s", "url": f"http://127.0.0.1:{port}/mcp/"}),
            Layout(),
            breaker=breaker,
            pauses=(0.0, 0.0),
        )
        (tool,) = await connection.tools()
    for _ in range(3):
        with pytest.raises(ToolError, match=r"cannot be reached|closed"):
            await tool.run(CALL)
    with pytest.raises(ToolError, match="left alone for 15 s more"):
        await tool.run(CALL)
    async with serve_tools(ToolServer("a"), port=port):
        now[0] = 16.0
        assert await tool.run(CALL) == "from a"
        assert told == [True, False]
        await connection.aclose()
