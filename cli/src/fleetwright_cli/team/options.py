"""The commands `team …`. This module only defines the options."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetwright_cli.cluster.options import on_cluster

if TYPE_CHECKING:
    from fleetwright_cli.cluster.client import ClusterClient


@click.group("team")
def team_group() -> None:
    """Show, suspend, resize, export and import an agent with its descendants."""


@team_group.command("tree")
@click.argument("lead", required=False)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@on_cluster
def team_tree(cluster: "ClusterClient", lead: str | None, output: str) -> None:
    """Show the team of LEAD, or all teams of the namespace."""
    from fleetwright_cli.team import command

    command.tree(cluster, lead, output)


@team_group.command("suspend")
@click.argument("lead")
@click.option("--wait", default=0.0, help="Seconds to wait until every agent is suspended.")
@on_cluster
def team_suspend(cluster: "ClusterClient", lead: str, wait: float) -> None:
    """Suspend LEAD and its descendants. Their memory stays."""
    from fleetwright_cli.team import command

    command.suspend(cluster, lead, wait=wait)


@team_group.command("resume")
@click.argument("lead")
@click.option("--wait", default=0.0, help="Seconds to wait until every agent runs.")
@on_cluster
def team_resume(cluster: "ClusterClient", lead: str, wait: float) -> None:
    """Resume LEAD and its descendants."""
    from fleetwright_cli.team import command

    command.resume(cluster, lead, wait=wait)


@team_group.command("export")
@click.argument("lead")
@on_cluster
def team_export(cluster: "ClusterClient", lead: str) -> None:
    """Print LEAD and its descendants, with their skills and MCP servers, as manifests for kubectl apply."""
    from fleetwright_cli.team import command

    command.export(cluster, lead)


@team_group.command("import")
@click.option("-f", "--filename", "file", required=True, type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.option("--force-conflicts", is_flag=True, help="Take over fields that another field manager owns.")
@on_cluster
def team_import(cluster: "ClusterClient", file: Path, force_conflicts: bool) -> None:
    """Apply what `team export` printed."""
    from fleetwright_cli.team import command

    command.import_(cluster, file, force=force_conflicts)


@team_group.command("expand")
@click.argument("lead")
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A list of sub-agents, as in spec.subAgents; those of LEAD by default.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@click.option("-o", "--output", type=click.Choice(["text", "yaml"]), default="text", show_default=True)
@on_cluster
def team_expand(cluster: "ClusterClient", lead: str, file: Path | None, dry_run: bool, output: str) -> None:
    """Make an agent of each sub-agent of LEAD, with LEAD as its parent."""
    from fleetwright_cli.team.expand_command import expand

    expand(cluster, lead, file=file, dry_run=dry_run, output=output)


@team_group.command("collapse")
@click.argument("lead")
@click.option("--no-handoff", is_flag=True, help="Do not ask the children for a handoff.")
@click.option("--force", is_flag=True, help="Also delete children with running tasks, or if these are unknown.")
@click.option("--yes", is_flag=True, help="Do not ask whether to delete the children.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and ask no child.")
@click.option("-o", "--output", type=click.Choice(["text", "yaml"]), default="text", show_default=True)
@on_cluster
def team_collapse(
    cluster: "ClusterClient", lead: str, no_handoff: bool, force: bool, yes: bool, dry_run: bool, output: str
) -> None:
    """Make a sub-agent of each child of LEAD, and delete the children. Each child writes a handoff first."""
    from fleetwright_cli.team.collapse_command import collapse

    collapse(
        cluster,
        lead,
        with_handoff=not no_handoff,
        force=force,
        confirmed=yes,
        dry_run=dry_run,
        output=output,
    )
