"""Separates the operator from all other callers: each side reaches only its own routes."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.errors import refuse
from fleetwright_agent.config.operator import OPERATOR

PATH: Final = "/approvals"
_NOT_OPERATOR: Final = "Only the operator may use this path. To approve or decline a tool call, answer its task."
_OPERATOR: Final = f"The operator's token is accepted only at {PATH}."


class OperatorAccess:
    """ASGI application that passes requests of the operator and of other callers to different applications."""

    def __init__(self, callers: ASGIApp, *, operator: ASGIApp) -> None:
        self._callers = callers
        self._operator = operator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Only requests for the public cards have no user.
        is_operator = "user" in scope and scope["user"].display_name == OPERATOR
        path = scope["path"]
        if is_operator != (path == PATH or path.startswith(f"{PATH}/")):
            await refuse(403, _OPERATOR if is_operator else _NOT_OPERATOR)(scope, receive, send)
            return
        await (self._operator if is_operator else self._callers)(scope, receive, send)
