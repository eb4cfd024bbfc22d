"""The options that select a cluster and a namespace, for every command that connects to a cluster."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click

OUTPUT: Final = click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True
)
PLACE: Final = (
    click.option("--context", default=None, help="The kubeconfig context; the current one by default."),
    click.option("-n", "--namespace", default=None, help="The namespace; the context's own by default."),
)


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--context` and `--namespace`, and call the command with the connected `Cluster` as its first argument."""

    @click.option("--context", default=None, help="The kubeconfig context; the current one by default.")
    @click.option("-n", "--namespace", default=None, help="The namespace; the context's own by default.")
    @wraps(command)
    def connected(*, context: str | None, namespace: str | None, **arguments: Any) -> None:
        from fleetwright_cli.cluster.client import ClusterClient

        command(ClusterClient.connect(context=context, namespace=namespace), **arguments)

    return connected
