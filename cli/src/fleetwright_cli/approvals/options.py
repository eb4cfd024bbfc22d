"""The commands `approvals`, `approve` and `deny`. This module only defines the options."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetwright_cli.cluster.options import on_cluster

if TYPE_CHECKING:
    from fleetwright_cli.cluster.client import ClusterClient


@click.group("approvals", invoke_without_command=True)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List the approvals of all namespaces.")
@click.option("--watch", is_flag=True, help="Print every change until interrupted.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option("--context", default=None, help="The kubeconfig context; the current one by default.")
@click.option("-n", "--namespace", default=None, help="The namespace; the context's own by default.")
@click.pass_context
def approvals_command(
    called: click.Context, everywhere: bool, watch: bool, output: str, context: str | None, namespace: str | None
) -> None:
    """List the tool calls that wait for a person, and those that were decided."""
    if called.invoked_subcommand is not None:
        return
    from fleetwright_cli.approvals import command
    from fleetwright_cli.cluster.client import ClusterClient

    command.show(
        ClusterClient.connect(context=context, namespace=namespace), output, everywhere=everywhere, watch=watch
    )


@approvals_command.command("show")
@click.argument("name")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@on_cluster
def show_command(cluster: "ClusterClient", name: str, output: str) -> None:
    """Print the approval NAME: the call with its arguments, who asks, the decision, and the answer of the agent."""
    from fleetwright_cli.approvals import command

    command.show_approval(cluster, name, output)


@click.command("approve")
@click.argument("name")
@click.option("--reason", default=None, help="Why, for the record.")
@click.option(
    "--arguments",
    "file",
    type=click.Path(path_type=Path, exists=True, allow_dash=True, dir_okay=False),
    help="A JSON or YAML file with all arguments, to run the call with these instead.",
)
@click.option("--wait", default=0.0, help="Seconds to wait until the agent has accepted the decision.")
@on_cluster
def approve_command(cluster: "ClusterClient", name: str, reason: str | None, file: Path | None, wait: float) -> None:
    """Approve the tool call of the approval NAME."""
    from fleetwright_cli.approvals import command

    command.approve(cluster, name, reason=reason, file=file, wait=wait)


@click.command("deny")
@click.argument("name")
@click.option("--reason", required=True, help="Why. The agent's model reads it.")
@click.option("--wait", default=0.0, help="Seconds to wait until the agent has accepted the decision.")
@on_cluster
def deny_command(cluster: "ClusterClient", name: str, reason: str, wait: float) -> None:
    """Deny the tool call of the approval NAME."""
    from fleetwright_cli.approvals import command

    command.deny(cluster, name, reason=reason, wait=wait)
