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
        click.echo(yaml.safe_dump(data, sort_keys=False), nl=False)
    else:
        click.echo(text())
