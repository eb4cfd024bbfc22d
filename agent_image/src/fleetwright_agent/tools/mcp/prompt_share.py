"""Limits how much of a prompt the tools of MCP servers may take, and selects the tools to exclude. Pure.

A server decides how long its tool descriptions are, and every model call pays for them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from fleetwright_agent.tools.port import Tool

MOST_TOKENS_OF_A_TOOL: Final = 4000
SHARE: Final = 0.25
"""The largest share of the prompt's tokens for the tools of all MCP servers together."""
_CHARACTERS_OF_A_TOKEN: Final = 4


def tokens_of(tool: Tool) -> int:
    """Return the estimated tokens of the tool's declaration."""
    return -(-len(json.dumps(tool.declaration, ensure_ascii=False)) // _CHARACTERS_OF_A_TOKEN)


def tools_over_share(tools: Sequence[Tool], *, room: int, shares_prompt: bool = True) -> Mapping[str, int]:
    """Return the tools that are too large, with the tokens of each.

    Args:
        tools: The tools of all MCP servers.
        room: Tokens that a prompt may have.
        shares_prompt: True where the model is shown all of them at once. Behind a tool search it is shown a few, and
            only the limit of each tool holds.
    """
    sizes = {tool.name: tokens_of(tool) for tool in tools}
    most = int(SHARE * room)
    dropped = {name: size for name, size in sizes.items() if size > min(MOST_TOKENS_OF_A_TOOL, most)}
    total = sum(sizes.values()) - sum(dropped.values())
    if not shares_prompt:
        return dropped
    # Drop the largest first, so that most tools stay. Names break ties, which keeps prompts stable.
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if total <= most:
            break
        if name not in dropped:
            dropped[name] = size
            total -= size
    return dropped
