"""Time limits of text buffering and of calls to MCP servers, in virtual time."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.mcp_tools import ToolServer, serve_tools
from tests.support.virtual_time import run

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.server.executors.answer import AnswerStream
from fleetwright_agent.server.ops.routes import ops_app
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.port import ToolCall, ToolError

CALL = ToolCall({}, TurnRequest("o", "c", "t", "x"), lambda _: None)

PIECES = [
    pytest.param(0.0, ["a"], id="the first piece is sent at once"),
    pytest.param(0.09, ["a"], id="the next ones are gathered"),
    pytest.param(0.11, ["a", "bc"], id="for a tenth of a second"),
    pytest.param(5.0, ["a", "bc"], id="and sent once"),
]


@pytest.mark.parametrize(("seconds", "wanted"), PIECES)
def test_answer_stream_batches_chunks_for_100_ms(seconds: float, wanted: list[str]) -> None:
    async def answer() -> list[str]:
        sent: list[str] = []
        growing = AnswerStream("t", "c", lambda event: sent.append(event.artifact.parts[0].text))
        for piece in "abc":
            growing.speak(piece)
        await asyncio.sleep(seconds)
        growing.stop()
        return sent

    assert run(answer()) == wanted


async def _until_it_gives_up(work: Callable[[], Awaitable[object]]) -> tuple[float, str]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        await work()
    except (McpUnreachable, ToolError) as error:
        return loop.time() - began, str(error)
    raise AssertionError("it had an answer")


def _connection(port: int) -> McpConnection:
    server = McpServer.model_validate({"name": "s", "url": f"http://127.0.0.1:{port}/mcp/"})
    return McpConnection(server, Layout(), clock=asyncio.get_running_loop().time)


async def _silent_server() -> tuple[float, str]:
    """List the tools of a server that accepts the connection and never answers."""

    async def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        writer.close()

    async with await asyncio.start_server(keep, "127.0.0.1", 0) as server:
        connection = _connection(server.sockets[0].getsockname()[1])
        result = await _until_it_gives_up(connection.tools)
        await connection.aclose()
    return result


async def _silent_call() -> tuple[float, str]:
    """Call a tool that never returns."""
    async with serve_tools(ToolServer("wait")) as port:
        connection = _connection(port)
        (tool,) = await connection.tools()
        result = await _until_it_gives_up(lambda: tool.run(CALL))
        await connection.aclose()
    return result


LIMITS = [
    pytest.param(_silent_server, 20, id="a server that does not list its tools"),
    pytest.param(_silent_call, 300, id="a tool that does not return"),
]


@pytest.mark.process
@pytest.mark.parametrize(("act", "wanted"), LIMITS)
def test_mcp_timeouts_match_the_documented_limits(act: Callable[[], Awaitable[tuple[float, str]]], wanted: int) -> None:
    async def main() -> tuple[float, str]:
        return await act()

    seconds, said = run(main())
    assert said.endswith(f"did not answer within {wanted} s")
    assert abs(seconds - wanted) < 1


STARTS = [
    pytest.param(0.0, (200, 0.0), id="an agent that has started"),
    pytest.param(0.5, (200, 0.5), id="one that needs half a second more"),
    pytest.param(60.0, (503, 3.0), id="one that needs longer than a probe waits"),
]


@pytest.mark.parametrize(("started", "wanted"), STARTS)
def test_early_startup_probe_is_answered_once_the_agent_started(started: float, wanted: tuple[int, float]) -> None:
    async def probe() -> tuple[int, float]:
        loop = asyncio.get_running_loop()

        def is_starting() -> bool:
            return loop.time() < started

        app = ops_app(
            metrics=CollectorRegistry,
            not_ready=lambda: "the agent is starting" if is_starting() else None,
            status=dict,
            heartbeat=SimpleNamespace(stalled=lambda: None, dead=False),
            is_starting=is_starting,
        )
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://agent") as http:
            answer = await http.get("/readyz", timeout=None)
        return answer.status_code, round(loop.time(), 1)

    assert run(probe()) == wanted
