"""Builds the workspace of an agent: its tools, and the overview that its prompts contain. Both use one connection."""

from dataclasses import dataclass
from typing import Final

from fleetwright_agent.tools.port import ToolProvider
from fleetwright_agent.turn.compaction.policy import room
from fleetwright_agent.turn.conversation_undo import FileUndo
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.pipeline.model.workspace_context import Overview

_MOST_TOKENS: Final = 8_000
_SHARE: Final = 10
"""An overview uses at most a tenth of a prompt."""


@dataclass(frozen=True, slots=True)
class TurnWorkspace:
    tools: ToolProvider | None = None
    overview: Overview | None = None
    undo: FileUndo | None = None


def build_workspace(dependencies: TurnDependencies) -> TurnWorkspace:
    """Return the workspace without connecting to it; empty if the configuration has none."""
    config, layout = dependencies.config, dependencies.layout
    if config.workspace is None:
        return TurnWorkspace()
    # Imported lazily: most agents have no workspace.
    from fleetwright_agent.tools.workspace.http_runner import HttpWorkspaceRunner, runner_client
    from fleetwright_agent.tools.workspace.overview import WorkspaceOverview
    from fleetwright_agent.tools.workspace.provider import WorkspaceTools
    from fleetwright_agent.tools.workspace.undo import WorkspaceUndo
    from fleetwright_agent.tools.workspace.web.page_fetcher import PageFetcher, web_transport

    url, hosts, store = config.workspace.url, config.workspace.web_hosts, dependencies.storage.workspace
    runner = HttpWorkspaceRunner(url, layout, runner_client(url, denied=config.denied_ranges))
    fetcher = PageFetcher(hosts, web_transport(hosts, denied=config.denied_ranges))
    overview = WorkspaceOverview(runner, store, most_tokens=min(_MOST_TOKENS, room(config.model) // _SHARE))
    tools = WorkspaceTools(config.workspace, runner, store, fetcher)
    return TurnWorkspace(tools, overview.text, WorkspaceUndo(runner))
