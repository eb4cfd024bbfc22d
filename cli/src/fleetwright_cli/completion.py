"""Shell completion: for `fleetwright` itself, and for `kubectl fleetwright`.

kubectl 1.26 and later runs the program `kubectl_complete-fleetwright` with the words typed so far. The program prints
one candidate a line, and a directive for the shell at the end.
"""

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

_NO_FILES = ":4"
"""kubectl's directive (cobra ShellCompDirectiveNoFileComp): offer no file names."""
_FILES = ":0"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the completion script of a SHELL, for example: source <(fleetwright completion bash)."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"no completion for {shell}")
    click.echo(kind(context.find_root().command, {}, "fleetwright", "_FLEETWRIGHT_COMPLETE").source())


def candidates(command: click.Command, words: list[str]) -> list[str]:
    """Return the candidates for the last word, and the directive."""
    found = ShellComplete(command, {}, "fleetwright", "").get_completions(words[:-1], words[-1] if words else "")
    names_files = any(item.type in {"file", "dir"} for item in found)
    values = [item.value for item in found if item.type == "plain"]
    return [*values, _FILES if names_files else _NO_FILES]


def complete_for_kubectl() -> None:
    """The program `kubectl_complete-fleetwright`."""
    from fleetwright_cli.__main__ import main

    sys.stdout.write("\n".join(candidates(main, sys.argv[1:])) + "\n")
