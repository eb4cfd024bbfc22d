"""The command `report`, which writes a support report into one archive."""

import io
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetwright_cli.cluster.options import check_duration, on_cluster

if TYPE_CHECKING:
    from fleetwright_cli.cluster.client import ClusterClient


@click.command("report")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Include the objects of all namespaces.")
@click.option(
    "--since",
    default="24h",
    show_default=True,
    callback=check_duration,
    help="Include the log lines of this time, such as 90m.",
)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Name of the archive (.tar.gz).")
@click.option("--force", is_flag=True, help="Replace an existing --file.")
@on_cluster
def report_command(cluster: "ClusterClient", everywhere: bool, since: str, file: Path | None, force: bool) -> None:
    """Write a support report into one archive: versions, states, events and logs.

    The archive has the installations, the status of Agents, McpServers and Skills, their pods and Events, and the logs
    of the operator, the gateway and the agents, but not those of McpServers. Secrets are not read, and text in the
    format of a secret is replaced. Only you can read the file. Its README.txt names what it excludes. Standard error
    names only what could not be read or is not complete.
    """
    from fleetwright_cli.administration.commands import finished
    from fleetwright_cli.administration.export_file import complete_file
    from fleetwright_cli.inspection.support_report import collect_report

    now = datetime.now(UTC)
    name = f"fleetwright-report-{now:%Y%m%dT%H%M%SZ}"
    path = file or Path(f"{name}.tar.gz")
    with complete_file(path, replaces=force) as output, tarfile.open(fileobj=output, mode="w:gz") as archive:

        def add_file(inner: str, content: bytes) -> None:
            entry = tarfile.TarInfo(f"{name}/{inner}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(now.timestamp())
            archive.addfile(entry, io.BytesIO(content))

        gaps = finished(lambda: collect_report(cluster, add_file, everywhere=everywhere, since=since, now=now))
    for gap in gaps:
        click.echo(f"Missing: {gap}", err=True)
    click.echo(str(path))
