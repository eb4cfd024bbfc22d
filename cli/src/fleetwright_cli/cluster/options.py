"""The options that select a cluster and a namespace, for every command that connects to a cluster."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, Final

import click

_DURATION: Final = re.compile(r"(\d+[hms])+", re.ASCII)
_LONGEST_SECONDS: Final = 100 * 365 * 24 * 3600
OUTPUT: Final = click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True
)
PLACE: Final = (
    click.option("--context", default=None, help="The kubeconfig context; the current one by default."),
    click.option("-n", "--namespace", default=None, help="The namespace; the context's own by default."),
)


def check_duration(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the value of an option that kubectl takes as a duration, such as 90m. Raises: click.BadParameter."""
    if not _DURATION.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a duration such as 90m or 24h", context, parameter)
    return value


def parse_duration(text: str) -> timedelta:
    """Return a duration that `check_duration` accepts, such as 1h30m, but at most a hundred years."""
    seconds = {"h": 3600, "m": 60, "s": 1}
    total = sum(int(number) * seconds[unit] for number, unit in re.findall(r"(\d+)([hms])", text, re.ASCII))
    return timedelta(seconds=min(total, _LONGEST_SECONDS))


def on_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--context` and `--namespace`, and call the command with the connected `Cluster` as its first argument."""

    @click.option("--context", default=None, help="The kubeconfig context; the current one by default.")
    @click.option("-n", "--namespace", default=None, help="The namespace; the context's own by default.")
    @wraps(command)
    def connected(*, context: str | None, namespace: str | None, **arguments: Any) -> None:
        from fleetwright_cli.cluster.client import ClusterClient

        command(ClusterClient.connect(context=context, namespace=namespace), **arguments)

    return connected
