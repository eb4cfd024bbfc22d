"""An agent whose MCP server is behind an HTTP proxy: the calls of its own turns and those of its sub-agents."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http.relay import run_relay
from tests.support.waiting import await_until

CLERK = {
    "name": "clerk",
    "description": "Charges cards.",
    "instructions": "Charge.",
    "tools": ["house__charge_card"],
}


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("Charge card 30", id="its own"),
        pytest.param('Give a task to the sub-agent clerk: "Charge card 30"', id="a sub-agent"),
    ],
)
async def test_agent_calls_tools_only_through_the_proxy_of_their_server(
    agent: Callable[..., Any], serve: Callable[..., Any], house: Any, order: str
) -> None:
    """The agent cannot resolve the name of the server, so no connection avoids the proxy."""
    tools = house.server()
    tools.settings.transport_security = None  # It would accept local names only.
    with serve(tools.streamable_http_app()) as port:
        async with run_relay() as proxy:
            server = {"url": f"http://tools.invalid:{port}/mcp", "proxyUrl": f"http://127.0.0.1:{proxy.port}"}
            async with agent(server=server, subAgents=[CLERK]) as guest:
                await guest.say(order)

                async def is_reachable() -> bool:
                    return [each["reachable"] for each in (await guest.status())["mcpServers"]] == [True]

                await await_until(is_reachable, "the server is reachable", shown=lambda: proxy.heard)
    assert house.ledger == ["charged 30"]
    assert proxy.heard.startswith(b"POST http://tools.invalid:%d/mcp " % port)
