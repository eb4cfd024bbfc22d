"""The commands `skills`. This module only defines the options."""

import sys
from typing import Any

import click

from fleetwright_cli.administration.addresses import ADMIN_ADDRESS
from fleetwright_cli.administration.admin_client import AdminClient
from fleetwright_cli.administration.commands import administer
from fleetwright_cli.cluster.options import OUTPUT
from fleetwright_cli.cluster.output import print_result
from fleetwright_cli.terminal.commands import with_options

_OWNER = (click.option("--owner", help="Only the skills of this caller, such as client:shop."),)
_WORDS = (
    click.argument("agent"),
    click.argument("name"),
)


@click.group("skills")
def skills_group() -> None:
    """Look after the skills that an agent has learned from its tasks, as one of its administrators."""


@skills_group.command("ls")
@with_options(ADMIN_ADDRESS, _OWNER)
@OUTPUT
@click.argument("agent", required=False)
def list_command(agent: str | None, owner: str | None, output: str, **options: Any) -> None:
    """List the learned skills of AGENT."""
    from fleetwright_cli.administration.skills import skills_table

    found = _skills(agent, owner, options)
    if output == "text" and not found:
        click.echo("The agent has learned no skills. It learns with memory.skills.enabled and sub-agents.", err=True)
        return
    print_result(output, lambda: skills_table(found), found)


@skills_group.command("show")
@with_options(ADMIN_ADDRESS, _OWNER, _WORDS)
@OUTPUT
def show_command(agent: str, name: str, owner: str | None, output: str, **options: Any) -> None:
    """Show the learned skill NAME of AGENT with the text of its task."""
    from fleetwright_cli.administration.skills import skill_text

    found = _skill(agent, name, owner, options)
    print_result(output, lambda: skill_text(found), found)


@skills_group.command("promote")
@with_options(ADMIN_ADDRESS, _OWNER, _WORDS)
@click.option("--as", "new_name", metavar="NAME", help="Another name for the Skill.")
@click.option("--apply", "applies", is_flag=True, help="Apply the Skill to the namespace instead of printing it.")
@click.option("--yes", is_flag=True, help="With --apply, do not ask whether to replace a Skill that exists.")
@click.option("--force-conflicts", is_flag=True, help="With --apply, take over fields that another manager owns.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def promote_command(
    agent: str,
    name: str,
    owner: str | None,
    new_name: str | None,
    applies: bool,
    yes: bool,
    force_conflicts: bool,
    output: str,
    **options: Any,
) -> None:
    """Print the learned skill NAME of AGENT as a Skill object, for `kubectl apply` or a repository.

    A model reads a Skill as instructions, for every caller of an agent that has it. Read the text before you apply it.
    """
    from fleetwright_api.skill_document import InvalidSkill
    from fleetwright_cli.administration.skills import skill_manifest

    found = _skill(agent, name, owner, options)
    try:
        manifest = skill_manifest(found, name=new_name, namespace=options["namespace"])
    except InvalidSkill as error:
        raise click.ClickException(f"{error}; --as gives it another name") from None
    chosen = manifest["metadata"]["name"]
    if applies:
        from fleetwright_cli.administration.skill_replacement import apply_skill
        from fleetwright_cli.cluster.client import ClusterClient

        cluster = ClusterClient.connect(context=options["context"], namespace=options["namespace"])
        apply_skill(cluster, manifest, yes=yes, force=force_conflicts)
        click.echo(f"Skill {chosen} is applied in namespace {cluster.namespace}.")
    else:
        print_result(output, str, manifest)
    click.echo(
        f"Agents get it with spec.skills: [{{name: {chosen}}}]. The learned skill stays until it is merged.", err=True
    )


@skills_group.command("forget")
@with_options(ADMIN_ADDRESS, _OWNER, _WORDS)
@click.option("--yes", is_flag=True, help="Do not ask whether to forget it.")
@OUTPUT
def forget_command(agent: str, name: str, owner: str | None, yes: bool, output: str, **options: Any) -> None:
    """Delete the learned skill NAME of AGENT. The agent may learn it again."""
    from fleetwright_cli.administration.skills import SKILLS_PATH

    found = _skill(agent, name, owner, options)
    if not yes:
        click.confirm(f"Forget skill {name} of {found['owner']}?", abort=True, err=True)
    parameters = {"owner": str(found["owner"]), "name": name}
    gone = administer(agent, options, lambda client: client.call("DELETE", SKILLS_PATH, parameters))
    print_result(output, lambda: f"Skill {name} of {found['owner']} is forgotten.", gone)


@skills_group.command("curate")
@with_options(ADMIN_ADDRESS)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@OUTPUT
@click.argument("agent", required=False)
def curate_command(agent: str | None, dry_run: bool, output: str, **options: Any) -> None:
    """Merge similar skills of AGENT and prune unused ones now, by the rules of memory.skills.curation."""
    from fleetwright_cli.administration.skills import CURATION_PATH, plan_text

    parameters = {"dryRun": "true"} if dry_run else {}
    plan = administer(agent, options, lambda client: client.call("POST", CURATION_PATH, parameters))
    print_result(output, lambda: plan_text(plan), plan)


def _skills(agent: str | None, owner: str | None, options: dict[str, Any]) -> list[dict[str, Any]]:
    from fleetwright_cli.administration.skills import SKILLS_PATH

    async def read(client: AdminClient) -> list[dict[str, Any]]:
        answer = await client.call("GET", SKILLS_PATH, {"owner": owner} if owner is not None else {})
        return [each for each in answer.get("skills") or () if isinstance(each, dict)]

    return administer(agent, options, read)


def _skill(agent: str, name: str, owner: str | None, options: dict[str, Any]) -> dict[str, Any]:
    from fleetwright_cli.administration.skills import SkillNotChosen, choose_skill

    try:
        return dict(choose_skill(_skills(agent, owner, options), name))
    except SkillNotChosen as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
