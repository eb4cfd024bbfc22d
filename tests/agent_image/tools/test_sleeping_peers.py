"""Declared peers that may sleep: called through a gateway in memory, to a real A2A server behind it."""

import httpx
import pytest
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import (
    GATEWAY,
    ME,
    Gateway,
    UnreadableLog,
    build_context,
    open_log_with_delegation,
    serve_cook,
)

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.tools.peers.gateway_calls import GatewayCalls
from fleetwright_agent.tools.peers.tool import PeerTools, opaque_token
from fleetwright_agent.tools.port import ToolCall, ToolError

COOK = Peer.model_validate(
    {"name": "cook", "namespace": "n", "url": f"{GATEWAY}/agents/n/cook", "throughGateway": True}
)


class NoDirectCalls:
    """Fails the test if a token for a direct call is requested."""

    async def token_for(self, *_):
        raise AssertionError("the peer is behind the gateway")


async def tool_over(gateway, folder, *, delegations=None, now=lambda: 0.0):
    layout = Layout(root=folder / "desk")
    for path, token in ((layout.gateway_token_file, "own-token\n"), (layout.peer_token_file("n", "cook"), "opaque")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(token)
    calls = GatewayCalls(layout, delegations or MemoryTaskLog(), now=now)
    client, kept = httpx.AsyncClient(transport=gateway), memory_storage().questions
    peers = PeerTools(
        ME, [COOK], layout, client, kept, direct=NoDirectCalls(), through_gateway=calls, records=call_records()
    )
    (tool,) = await peers.tools(build_context())
    return tool


def call(owner="client:a"):
    return ToolCall({"message": "boil eggs"}, TurnRequest(owner, "c1", "t1", "x"), lambda _: None)


@pytest.mark.parametrize(
    ("owner", "delegations"),
    [
        pytest.param("client:a", {"delegation-of-t1"}, id="the task of a principal"),
        pytest.param("client:b", {None}, id="a task without a principal"),
    ],
)
async def test_sleeping_peer_is_called_with_the_pods_token(tmp_path, owner, delegations):
    async with serve_cook(tmp_path) as (cook, gateway):
        tool = await tool_over(gateway, tmp_path, delegations=await open_log_with_delegation("t1"))
        assert (tool.name, await tool.run(call(owner))) == ("ask_cook", "eggs, boiled")
    assert [(heard.text, heard.call_path) for heard in cook.heard] == [("boil eggs", (ME,))]
    assert set(gateway.tokens) == {"Bearer own-token"}
    assert set(gateway.delegations) == delegations


@pytest.mark.parametrize(
    ("log", "now", "wanted"),
    [
        pytest.param(None, 60.0, "this task has run too long", id="the delegation has expired"),
        pytest.param(UnreadableLog(), 0.0, "cannot be read at the moment", id="the task cannot be read"),
    ],
)
async def test_sleeping_peer_gets_no_call_without_the_principal(tmp_path, log, now, wanted):
    gateway = Gateway()
    tool = await tool_over(gateway, tmp_path, delegations=log or await open_log_with_delegation("t1"), now=lambda: now)
    with pytest.raises(ToolError, match=wanted):
        await tool.run(call())
    assert gateway.tokens == []


async def test_sleeping_peer_never_gets_the_opaque_token(tmp_path):
    gateway = Gateway()
    tool = await tool_over(gateway, tmp_path)
    layout = Layout(root=tmp_path / "desk")
    layout.gateway_token_file.unlink()
    with pytest.raises(ToolError, match="holds no credential for the gateway"):
        await tool.run(call())
    assert gateway.tokens == []
    assert opaque_token([COOK], layout, httpx.URL(COOK.url)) is None
    direct = COOK.model_copy(update={"through_gateway": False})
    assert opaque_token([direct], layout, httpx.URL(COOK.url)) == "opaque"
