"""Shell completion of `fleetwright` and of `kubectl fleetwright`."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fleetwright_cli.__main__ import main
from fleetwright_cli.completion import candidates


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["te"], ["team", ":4"]),
        (["team", "s"], ["suspend", ":4"]),
        (["agents", "-o", ""], ["text", "json", "yaml", ":4"]),
        (["agents", "--all"], ["--all-namespaces", ":4"]),
        (["delegations", "--status", ""], ["Pending", "Dispatched", "Completed", "Failed", ":4"]),
        (["dev", "--catalog", ""], [":0"]),
        (["nothing", "x"], [":4"]),
    ],
    ids=["command", "subcommand", "choice", "option", "status", "file", "unknown"],
)
def test_candidates_for_kubectl(words, wanted):
    assert candidates(main, words) == wanted


@pytest.mark.process
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_names_the_program(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert "_FLEETWRIGHT_COMPLETE" in done.output


def test_k9s_plugins_run_commands_that_exist():
    text = (Path(__file__).parents[2] / "cli/k9s/plugins.yaml").read_text()
    for plugin in yaml.safe_load(text)["plugins"].values():
        assert set(plugin) == {"shortCut", "description", "scopes", "command", "background", "args"}
        assert plugin["args"][0] == "fleetwright"
        command = main.commands[plugin["args"][1]]
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in plugin["args"] if word.startswith("-")} <= options
