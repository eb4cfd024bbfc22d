"""Asks before a Skill of the cluster gets another content."""

import sys
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

import click

from fleetwright_api.spec.skill import parse_skill
from fleetwright_cli.cluster.tables import visible


def confirm_replacement(found: Mapping[str, Any] | None, manifest: Mapping[str, Any], *, yes: bool) -> None:
    """Show how the manifest differs from the Skill that exists, and ask whether to replace it.

    Raises:
        click.ClickException: There is no terminal to ask at.
        click.Abort: The user does not want it.
    """
    if found is None or yes:
        return
    old, new = _files(found), _files(manifest)
    if old == new:
        return
    name = manifest["metadata"]["name"]
    for file in sorted({*old, *new}):
        before, after = old.get(file, "").splitlines(), new.get(file, "").splitlines()
        for line in unified_diff(before, after, f"{file} (exists)", f"{file} (new)", lineterm=""):
            click.echo(visible(line), err=True)
    if not sys.stdin.isatty():
        raise click.ClickException(
            f"Skill {name} exists with other content; --yes replaces it, and --as gives the new one another name"
        )
    click.confirm(f"Replace Skill {name}?", abort=True, err=True)


def _files(skill: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a Skill; none if their source is not the object itself."""
    # A manifest without a namespace is for that of the kubeconfig.
    inline = parse_skill({**skill, "metadata": {"namespace": "", **skill["metadata"]}}).spec.source.inline
    return dict(inline.files) if inline else {}
