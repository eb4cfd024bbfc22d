"""Applies a Skill to the cluster, and asks before one that exists gets another content."""

import sys
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any, Final

import click

from fleetwright_api.spec.fields import crd_fields, crd_name
from fleetwright_api.spec.skill import SkillSourceSpec, parse_skill
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.cluster.refusals import ApiRefusal, FieldConflict
from fleetwright_cli.cluster.tables import visible

_FORBIDDEN: Final = 403
_FORBIDDEN_REMEDY: Final = "You need the rights to get, create and patch skills in this namespace"
_CONFLICT_REMEDY: Final = (
    "Change the Skill where its owner keeps it, give the new one another name with --as, or take the fields over with"
    " --force-conflicts"
)


def apply_skill(cluster: ClusterClient, manifest: Mapping[str, Any], *, yes: bool, force: bool) -> None:
    """Apply the Skill, after a question if it replaces another content.

    Args:
        yes: Do not ask.
        force: Take over fields of other managers, such as a GitOps controller.

    Raises:
        click.ClickException: The API server refuses it, or the Skill has another source. The message has the remedy.
        click.Abort: The user does not want it.
    """
    try:
        found = cluster.find(manifest["kind"], manifest["metadata"]["name"])
        _check_source(found)
        confirm_replacement(found, manifest, yes=yes)
        cluster.apply(manifest, force=force)
    except FieldConflict as conflict:
        raise click.ClickException(f"{conflict.message}. {_CONFLICT_REMEDY}") from None
    except ApiRefusal as refusal:
        remedy = f". {_FORBIDDEN_REMEDY}" if refusal.status == _FORBIDDEN else ""
        raise click.ClickException(f"{refusal.message}{remedy}") from None


def _check_source(found: Mapping[str, Any] | None) -> None:
    """Raises: click.ClickException: The files of the Skill come from somewhere else than the object."""
    if found is None:
        return
    source = _source(found)
    others = [crd_name(each) for each in crd_fields(source) if getattr(source, each.name) is not None]
    if source.inline is None and others:
        name = found["metadata"]["name"]
        raise click.ClickException(
            f"Skill {name} has its files from {others[0]}; change them there, or name the new one with --as"
        )


def confirm_replacement(found: Mapping[str, Any] | None, manifest: Mapping[str, Any], *, yes: bool) -> None:
    """Show how the manifest differs from the Skill that exists, and ask whether to replace it.

    Raises:
        click.ClickException: There is no terminal to ask at, or the Skill has files that the manifest does not have.
        click.Abort: The user does not want it.
    """
    if found is None:
        return
    old, new, name = _files(found), _files(manifest), manifest["metadata"]["name"]
    if others := sorted(old.keys() - new.keys()):
        # Server-side apply would leave the files of another manager in place.
        raise click.ClickException(
            f"Skill {name} has other files too ({', '.join(others)}); remove them first, or name the new one with --as"
        )
    if yes or old == new:
        return
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
    inline = _source(skill).inline
    return dict(inline.files) if inline else {}


def _source(skill: Mapping[str, Any]) -> SkillSourceSpec:
    # A manifest without a namespace is for that of the kubeconfig.
    return parse_skill({**skill, "metadata": {"namespace": "", **skill["metadata"]}}).spec.source
