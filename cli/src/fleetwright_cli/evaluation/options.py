"""The command `eval`. This module only defines the options."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from fleetwright_cli.terminal.commands import ADDRESS, address_options, with_options

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("eval")
@with_options(ADDRESS)
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(1, 100), help="Runs of each case.")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="Ask for this model, if the agent lets callers choose. With several, each runs all cases.",
)
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder that `files` of the cases refer to, such as that of `fleetwright dev --workspace`.",
)
@click.option("--approve", metavar="none|edits|FILE", default="none", show_default=True, help="As for `run`.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write JUnit XML to this file.")
@click.argument("file", type=_FILE)
@click.argument("agent", required=False)
def eval_command(file: Path, agent: str | None, **options: Any) -> None:
    """Run the conversations of FILE with an agent, and check what is expected of each.

    The exit code is 0 if every case has passed, 1 if not, and 4 if the agent cannot be reached. With --repeat, a case
    passes if most of its runs pass. With several models, every case must pass with every model.
    """
    from fleetwright_cli.evaluation.command import EvaluationOptions, evaluate
    from fleetwright_cli.terminal.headless.approval_rules import InvalidPolicy, approval_rules
    from fleetwright_cli.terminal.headless.outcome import ExitCode
    from fleetwright_cli.terminal.headless.runner import OnAsk, RunSettings
    from fleetwright_cli.terminal.transport.addresses import AgentNotSpecified, endpoint_of
    from fleetwright_cli.terminal.transport.errors import TransportError

    try:
        settings = RunSettings(on_ask=OnAsk.FAIL, rules=approval_rules(options["approve"]))
        endpoint = endpoint_of(address_options(agent, **options), os.environ, Path.cwd())
    except (AgentNotSpecified, InvalidPolicy) as error:
        raise click.UsageError(str(error)) from None
    except TransportError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(ExitCode.UNREACHABLE)
    passed = evaluate(
        EvaluationOptions(
            file=file,
            repeat=options["repeat"],
            models=tuple(dict.fromkeys(options["models"])) or ("",),
            workspace=options["workspace"],
            output=options["output"],
            junit=options["junit"],
            settings=settings,
        ),
        endpoint,
    )
    sys.exit(0 if passed else 1)
