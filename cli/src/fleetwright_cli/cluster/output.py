"""Prints a result: a table for people, or JSON or YAML for programs."""

import json
from collections.abc import Callable
from typing import Any

import click
import yaml


def print_result(output: str, text: Callable[[], str], data: Any) -> None:
    """Print the result in the format that the option `--output` names."""
    if output == "json":
        click.echo(json.dumps(data, indent=2))
    elif output == "yaml":
        click.echo(dump_yaml(data), nl=False)
    else:
        click.echo(text())


def dump_yaml(data: Any) -> str:
    """Return a value as one YAML document.

    Raises: click.ClickException: The value is nested too deeply for YAML. JSON needs less of the stack.
    """
    try:
        return yaml.safe_dump(data, sort_keys=False)
    except RecursionError:
        raise click.ClickException("the output is nested too deeply for YAML; use -o json") from None
