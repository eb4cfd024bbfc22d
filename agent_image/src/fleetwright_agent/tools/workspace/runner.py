"""The interface of a workspace's runner, which serves files and runs commands. It decides nothing.

Everything that a runner returns is untrusted data.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Protocol

from fleetwright_agent.tools.port import ToolError

UNREACHABLE: Final = "the workspace cannot be reached at the moment; go on without it, and say so in your answer"


def turn_name(owner: str, task_id: str) -> str:
    """Return the name of a task for the runner. A task id alone is not enough: callers may choose the same one."""
    return hashlib.sha256(json.dumps([owner, task_id]).encode()).hexdigest()


class RunnerUnavailable(ToolError):  # noqa: N818 - describes the runner
    """The runner or its executor cannot be used now, and the call had no effect."""


class RunnerError(ToolError):
    """The runner refused the call."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details or {}


class WorkspaceRunner(Protocol):
    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a function of the runner, and return its answer.

        Raises:
            RunnerUnavailable: The runner cannot be used.
            RunnerError: The runner refused the call.
            ToolError: The connection broke, so the outcome is unknown.
        """
        ...

    def execute(self, arguments: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        """Run a command, and yield its events. Closing the iterator ends the command. Raises: as `call`."""
        ...

    async def close(self) -> None: ...
