"""The size of a request's prompt in tokens: of the whole prompt, and of the part that every prompt certainly has."""

from typing import Any

from fleetwright_agent.turn.compaction.measure import prompt_tokens
from fleetwright_agent.turn.pipeline.composite import Request


def prompt_size(request: Request) -> int:
    standing = request.runtime.context.standing
    view = standing.view if standing else None
    return prompt_tokens(
        request.messages, system=_system(request), tools=_tools(request), trusted_from=view.newest if view else None
    )


def minimum_prompt_size(request: Request) -> int:
    """Return half of the estimated tokens of the system prompt, which is less than any prompt of this agent has.

    The provider may count fewer tokens than the estimate. Tools are not included, because they differ between callers,
    and their servers come and go.
    """
    return prompt_tokens([], system=_system(request), tools=[], trusted_from=None) // 2


def _system(request: Request) -> str:
    return request.system_message.text if request.system_message else ""


def _tools(request: Request) -> list[dict[str, Any]]:
    return [tool for tool in request.tools if isinstance(tool, dict)]
