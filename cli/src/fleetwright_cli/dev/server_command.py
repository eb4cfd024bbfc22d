"""The command line of an McpServer that runs on one machine. Pure."""

import sys

from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_cli.dev.layout import HOST
from fleetwright_cli.dev.manifests import InvalidFleet


def server_command(name: str, workload: WorkloadSpec, port: int) -> list[str]:
    """Return the workload's command line with expanded variables. `fleetwright` runs in this Python environment.

    Raises:
        InvalidFleet: The workload has no command.
    """
    if not workload.command:
        raise InvalidFleet(
            f"McpServer {name}: spec.workload.command: a local run needs a command, because it runs no images"
        )
    words = [*_bridge(workload), *workload.command, *workload.args]
    expanded = [word.replace("$(PORT)", str(port)).replace("$(HOST)", HOST) for word in words]
    if expanded[:1] == ["fleetwright"]:
        return [sys.executable, "-m", "fleetwright_cli", *expanded[1:]]
    return expanded


def _bridge(workload: WorkloadSpec) -> list[str]:
    """Return the bridge command that precedes the command of a stdio server, as in a pod."""
    if workload.transport != "Stdio":
        return []
    bridge = [sys.executable, "-m", "fleetwright_agent", "bridge", "--host", HOST, "--port", "$(PORT)"]
    return [*bridge, "--path", workload.path, "--"]
