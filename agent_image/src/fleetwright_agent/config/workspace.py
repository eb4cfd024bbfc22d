"""The configuration of the workspace: a folder of files in a separate pod, with tools that read, edit and run."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, StringConstraints, field_validator

from fleetwright_agent.config.base import Part

_HOST: Final = r"^(\*\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_COMMAND: Final = r"^[A-Za-z0-9_./:=@%+,-]+( [A-Za-z0-9_./:=@%+,-]+)*$"

AllowedCommand = Annotated[str, StringConstraints(pattern=_COMMAND, max_length=256)]
WebHost = Annotated[str, StringConstraints(pattern=_HOST, max_length=253)]


class WorkspaceTool(StrEnum):
    READ_FILE = "read_file"
    WRITE_FILE = "write_file"
    EDIT_FILE = "edit_file"
    LIST_DIRECTORY = "list_directory"
    SEARCH_FILES = "search_files"
    BASH = "bash"
    TODO_READ = "todo_read"
    TODO_WRITE = "todo_write"
    WEBFETCH = "webfetch"


_EDITING: Final = frozenset({WorkspaceTool.WRITE_FILE, WorkspaceTool.EDIT_FILE})


class EditApproval(StrEnum):
    ASK = "Ask"
    """A person approves each change of a file, or allows one tool to change a file for the rest of the conversation."""
    AUTO = "Auto"


class ShellApproval(StrEnum):
    TIERED = "Tiered"
    """Commands that only read run at once; a person approves all others."""
    ASK = "Ask"
    AUTO = "Auto"


class WorkspaceApprovals(Part):
    """Destructive commands, such as `rm -rf /`, never run; no approval allows them."""

    edits: EditApproval = EditApproval.ASK
    shell: ShellApproval = ShellApproval.TIERED


class Shell(Part):
    timeout_seconds: int = Field(default=30, gt=0, le=3600)
    """A command that runs longer is ended, and its output so far is returned."""
    allow: tuple[AllowedCommand, ...] = Field(default=(), max_length=64)
    """Commands that run without approval, with any further arguments.

    They run code of the workspace, such as the scripts of `npm test`. Each entry matches whole words.
    """


class Workspace(Part):
    """The file `auth/workspace` contains the token for the workspace."""

    url: str = Field(pattern=r"^https?://[^/\s]+$", max_length=512)
    """The address of the workspace, without a path."""
    tools: tuple[WorkspaceTool, ...] = Field(default=tuple(WorkspaceTool), min_length=1)
    approvals: WorkspaceApprovals = WorkspaceApprovals()
    shell: Shell = Shell()
    web_hosts: tuple[WebHost, ...] = Field(default=(), max_length=64)
    """The hosts that `webfetch` may read; `*.example.com` names all hosts below example.com. If empty, none."""

    @field_validator("tools")
    @classmethod
    def _distinct(cls, tools: tuple[WorkspaceTool, ...]) -> tuple[WorkspaceTool, ...]:
        return tuple(dict.fromkeys(tools))

    @property
    def may_ask(self) -> bool:
        """True if a call of one of the tools may need the approval of a person."""
        edits = not _EDITING.isdisjoint(self.tools) and self.approvals.edits is EditApproval.ASK
        return edits or (WorkspaceTool.BASH in self.tools and self.approvals.shell is not ShellApproval.AUTO)
