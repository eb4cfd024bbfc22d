"""Limits the share of a prompt that the tools of MCP servers may take, and selects the tools to exclude. Pure.

Tool descriptions come from the servers, and every model call pays for their tokens.
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
        room: The number of tokens that a prompt may have.
        shares_prompt: True if the prompt contains all tools. With a tool search it contains only a few, so only the
            limit for a single tool applies.
    """
    sizes = {tool.name: tokens_of(tool) for tool in tools}
    most = int(SHARE * room)
    dropped = {name: size for name, size in sizes.items() if size > min(MOST_TOKENS_OF_A_TOOL, most)}
    total = sum(sizes.values()) - sum(dropped.values())
    if not shares_prompt:
        return dropped
    # Exclude the largest tools first, so that as many tools as possible stay. Names break ties, so prompts are stable.
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if total <= most:
            break
        if name not in dropped:
            dropped[name] = size
            total -= size
    return dropped
