"""The provider of the workspace's tools: those that the configuration names, in its own order of approvals."""

from dataclasses import replace

from fleetwright_agent.config.workspace import Workspace, WorkspaceTool
from fleetwright_agent.storage.workspace import WorkspaceStore
from fleetwright_agent.tools.port import Tool, ToolContext
from fleetwright_agent.tools.workspace.commands import CommandTools
from fleetwright_agent.tools.workspace.edits import EditTools
from fleetwright_agent.tools.workspace.files import FileTools
from fleetwright_agent.tools.workspace.runner import WorkspaceRunner
from fleetwright_agent.tools.workspace.todos import TodoTools
from fleetwright_agent.tools.workspace.web.page_fetcher import PageFetcher
from fleetwright_agent.tools.workspace.web.tool import web_tools


class WorkspaceTools:
    name = "workspace"

    def __init__(self, config: Workspace, runner: WorkspaceRunner, store: WorkspaceStore, fetcher: PageFetcher) -> None:
        """Args: this class closes `runner` and `fetcher`."""
        self._runner = runner
        self._fetcher = fetcher
        known: dict[WorkspaceTool, Tool] = {
            **FileTools(runner, store).tools(),
            **EditTools(runner, store, config.approvals.edits).tools(),
            **CommandTools(runner, config.approvals.shell, config.shell).tools(),
            **TodoTools(store).tools(),
            **(web_tools(fetcher) if config.web_hosts else {}),
        }
        # Names are stored with a conversation, so they are plain texts and not members of the enumeration.
        self._tools = tuple(replace(known[name], name=name.value) for name in config.tools if name in known)

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:  # noqa: ARG002 - all turns have the same tools
        return self._tools

    async def close(self) -> None:
        await self._runner.close()
        await self._fetcher.close()
