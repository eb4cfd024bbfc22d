"""The limit on the share of a prompt that MCP tools may use, and the tools that it excludes."""

import pytest

from fleetwright_agent.tools.mcp.prompt_share import tokens_of, tools_over_share
from fleetwright_agent.tools.port import Tool


async def run(_):
    return ""


def tool(name, tokens):
    """Return a tool of about that many tokens."""
    return Tool(name, "x" * (4 * tokens - 100), {"type": "object"}, run)


@pytest.mark.parametrize(
    ("sizes", "room", "shares", "wanted"),
    [
        pytest.param({}, 8000, True, set(), id="no tool"),
        pytest.param({"a": 500, "b": 1400}, 8000, True, set(), id="all fit"),
        pytest.param({"a": 500, "b": 500_000}, 128_000, True, {"b"}, id="one that fills the window"),
        pytest.param({"a": 4100}, 1_000_000, True, {"a"}, id="one above the limit of a tool in a large window"),
        pytest.param({"a": 2100}, 8000, True, {"a"}, id="one above the share of a small window"),
        pytest.param({"a": 900, "b": 800, "c": 700}, 8000, True, {"a"}, id="the largest of too many"),
        pytest.param({"b": 900, "a": 900, "c": 900}, 8000, True, {"a"}, id="the first name among equals"),
        pytest.param({f"t{n:03}": 100 for n in range(256)}, 8000, False, set(), id="many behind a tool search"),
        pytest.param({"a": 4100, "b": 1000}, 8000, False, {"a"}, id="a large one behind a tool search"),
    ],
)
def test_tools_over_share_drops_the_largest_first(sizes, room, shares, wanted):
    tools = [tool(name, size) for name, size in sizes.items()]
    dropped = tools_over_share(tools, room=room, shares_prompt=shares)
    assert set(dropped) == wanted
    assert all(dropped[each.name] == tokens_of(each) for each in tools if each.name in dropped)
