"""The commands on Approvals. Each command reads Approvals, and prints them or writes a decision."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import yaml

from fleetwright_api import names
from fleetwright_cli.approvals.decision import (
    Decision,
    delivery,
    first_decision,
    is_the_same,
    obstacle,
    read_arguments,
)
from fleetwright_cli.approvals.table import Object, describe_approval, name_of, ordered, rows
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.cluster.tables import render, widths_of

Sleep = Callable[[float], None]
_PAUSE_SECONDS: Final = 0.5


def _now() -> datetime:
    return datetime.now(UTC)


def show(
    cluster: ClusterClient, output: str, *, everywhere: bool, watch: bool, now: Callable[[], datetime] = _now
) -> None:
    """Print the Approvals. Args: `watch` prints every change until it is interrupted."""
    found = ordered(cluster.list(names.APPROVAL, everywhere=everywhere))
    if output != "text":
        _print_objects(found, output)
    elif found:
        click.echo(render(rows(found, now=now(), with_namespace=everywhere)))
    else:
        where = "the cluster" if everywhere else f"namespace {cluster.namespace}"
        click.echo(f"No approvals in {where}.", err=True)
    if watch:
        widths = widths_of(rows(found, now=now(), with_namespace=everywhere))
        for changed in _changes(cluster, everywhere, found):
            if output == "text":
                table = rows([changed], now=now(), with_namespace=everywhere)
                click.echo(render(table, widths=widths).splitlines()[-1])
            elif output == "json":
                click.echo(json.dumps(changed))
            else:
                click.echo(yaml.safe_dump(changed, sort_keys=False, explicit_start=True), nl=False)


def show_approval(cluster: ClusterClient, name: str, output: str, *, now: Callable[[], datetime] = _now) -> None:
    """Print one Approval with its arguments, its decision and the answer of the agent."""
    found = cluster.get(names.APPROVAL, name)
    if output == "text":
        click.echo(describe_approval(found, now=now()))
    else:
        _print_objects([found], output)


def approve(
    cluster: ClusterClient,
    name: str,
    *,
    reason: str | None,
    file: Path | None,
    wait: float,
    sleep: Sleep = time.sleep,
) -> None:
    """Approve a call. Args: `file` has other arguments, with which the call runs; `-` means the standard input."""
    arguments = None
    if file is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        try:
            arguments = read_arguments(text, str(file))
        except ValueError as error:
            raise click.ClickException(str(error)) from None
    _decide(cluster, name, Decision("Approved", cluster.username(), reason, arguments), wait, sleep)


def deny(cluster: ClusterClient, name: str, *, reason: str, wait: float, sleep: Sleep = time.sleep) -> None:
    """Deny a call. The agent's model reads the reason."""
    _decide(cluster, name, Decision("Denied", cluster.username(), reason), wait, sleep)


def _decide(cluster: ClusterClient, name: str, decision: Decision, wait: float, sleep: Sleep) -> None:
    found = cluster.get(names.APPROVAL, name)
    if not is_the_same(found, decision):
        if problem := obstacle(found, decision):
            raise click.ClickException(problem)
        try:
            found = cluster.json_patch(names.APPROVAL, name, decision.patch)
        except click.ClickException as refused:
            # Another person may have decided meanwhile. The API server accepts one decision.
            latest = cluster.get(names.APPROVAL, name)
            raise click.ClickException(obstacle(latest, decision) or refused.message) from None
    click.echo(f"{name}: {first_decision(found)}")
    if wait:
        _await(cluster, found, decision, wait, sleep)


def _await(cluster: ClusterClient, decided: Object, decision: Decision, wait: float, sleep: Sleep) -> None:
    """Print the agent's answer to the decision.

    Args: `decided` is the Approval with the decision, as the API server has returned it.

    Raises:
        click.ClickException: The agent has refused the decision, or has not answered in time.
    """
    deadline = time.monotonic() + wait
    while True:
        found = cluster.get(names.APPROVAL, name_of(decided))
        answered, message = delivery(found, generation=decided["metadata"]["generation"])
        if answered or time.monotonic() >= deadline:
            break
        sleep(_PAUSE_SECONDS)
    if not answered:
        raise click.ClickException(f"not delivered after {wait:.0f} s: {message}")
    if "delivered" not in (found.get("status") or {}):
        raise click.ClickException(message)
    click.echo(f"{decision.decision} was accepted by the agent.")


def _changes(cluster: ClusterClient, everywhere: bool, known: list[Object]) -> Iterator[Object]:
    """Yield each Approval that is new or has changed."""
    versions = {_place(each): each["metadata"]["resourceVersion"] for each in known}
    for body in cluster.watch(names.APPROVAL, everywhere=everywhere):
        version = body["metadata"]["resourceVersion"]
        if versions.get(_place(body)) != version:
            versions[_place(body)] = version
            yield body


def _place(approval: Object) -> tuple[str, str]:
    return approval["metadata"].get("namespace", ""), name_of(approval)


def _print_objects(found: list[Object], output: str) -> None:
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(yaml.safe_dump_all(found, sort_keys=False, explicit_start=True), nl=False)
