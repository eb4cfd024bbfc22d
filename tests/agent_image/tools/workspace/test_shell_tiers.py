"""The tiers of shell commands: a corpus that a person has judged, and details of words, grants and allowed commands."""

import posixpath
from pathlib import Path

import pytest

from fleetwright_agent.tools.workspace.shell.git import GIT_RULES
from fleetwright_agent.tools.workspace.shell.tier import (
    ShellAllow,
    ShellAsk,
    ShellDeny,
    grant_key,
    tier,
)

ROOT = "/workspace"
LINES = [
    line.replace("@nl", "\n").split(" ", 1)
    for line in Path(__file__).with_name("shell_corpus.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
CORPUS = [(judged, command) for judged, command in LINES]
MOST_NEEDLESS = 0.02


def is_inside(path: str) -> bool:
    """Judge a path by its text, as a workspace without links does."""
    real = posixpath.normpath(posixpath.join(ROOT, path))
    return real == ROOT or real.startswith(f"{ROOT}/")


def found(command: str) -> str:
    match tier(command):
        case ShellDeny():
            return "never"
        case ShellAllow(paths=paths) if all(map(is_inside, paths)):
            return "free"
    return "ask"


@pytest.mark.parametrize(("judged", "command"), CORPUS, ids=[command for _, command in CORPUS])
def test_tier_equals_the_judgement_of_a_person(judged: str, command: str) -> None:
    assert found(command) == judged.replace("could", "ask")


def test_corpus_is_large_and_rarely_asks_without_need() -> None:
    needless = sum(judged == "could" for judged, _ in CORPUS)
    harmless = needless + sum(judged == "free" for judged, _ in CORPUS)
    assert len(CORPUS) >= 300
    assert len({command for _, command in CORPUS}) == len(CORPUS)
    assert needless / len(CORPUS) <= MOST_NEEDLESS, f"{needless} of {harmless} harmless commands"


@pytest.mark.parametrize(
    "command",
    ["cat\u00a0x", "cat x\u2028rm x", "ca\u200bt x", "cat\x0bx", "cat x\r", "ls\x00"],
    ids=ascii,
)
def test_invisible_characters_need_approval(command: str) -> None:
    assert isinstance(tier(command), ShellAsk)


@pytest.mark.parametrize(
    ("command", "allowed", "judged"),
    [
        ("npm test", ["npm test"], "free"),
        ("npm test -- --watch", ["npm test"], "free"),
        ("npm tests", ["npm test"], "ask"),
        ("npm", ["npm test"], "ask"),
        ("npm test; rm x", ["npm test"], "ask"),
        ("npm test $(id)", ["npm test"], "ask"),
        ("npm test > out", ["npm test"], "ask"),
        ("npm run test", ["npm test"], "ask"),
        ("'npm test'", ["npm test"], "ask"),
        ("sudo npm test", ["sudo npm"], "never"),
        ("./run.sh", ["./run.sh"], "free"),
    ],
)
def test_allowed_commands_match_whole_words(command: str, allowed: list[str], judged: str) -> None:
    kinds = {ShellAllow: "free", ShellAsk: "ask", ShellDeny: "never"}
    assert kinds[type(tier(command, allowed))] == judged


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("npm test", "npm  test", True),
        ("npm 'test'", 'npm "test"', True),
        ("npm test", "npm test x", False),
        ("npm 'test x'", "npm test x", False),
        ("npm test; ls", "npm test;  ls", False),
        ("npm $X", "npm '$X'", False),
    ],
)
def test_grants_are_keyed_by_the_parsed_command(one: str, other: str, equal: bool) -> None:
    assert (grant_key(one) == grant_key(other)) is equal


def test_free_git_command_disables_programs_of_the_repository() -> None:
    command = tier("git diff")
    assert isinstance(command, ShellAllow)
    assert {"--no-pager", "core.fsmonitor=false", "--no-ext-diff", "--no-textconv"} <= {*command.argv}
    assert command.environment["GIT_ALLOW_PROTOCOL"] == "none"
    assert {"--includes", "-z", "--list", "safe.bareRepository=explicit"} <= {*command.check}


HARMFUL = (
    "--outp=X",
    "-D x",
    *(pytest.param(option, marks=pytest.mark.exhaustive) for option in ("--output=X", "--ext-diff", "--textconv")),
)
OPTIONS = [
    (name, f"{dashes}{option}")
    for name, rule in GIT_RULES.items()
    for dashes, options in (
        ("-", [*rule.options.short, *rule.options.short_values, *rule.options.short_attached]),
        ("--", sorted(rule.options.long | rule.options.long_values | rule.options.long_optional)),
        ("--", [f"{option}=x" for option in sorted(rule.options.long_equals | rule.options.long_values)]),
    )
    for option in options
]


@pytest.mark.parametrize("harmful", HARMFUL)
def test_no_option_of_git_hides_another(harmful: str) -> None:
    starts = [(f"{name} {first}".rstrip(), option) for name, option in OPTIONS for first in firsts(name)]
    commands = [
        f"git {start} {option} {between}{harmful}{after}"
        for start, option in starts
        for between in ("", "-- ", "x ", "x -- ")
        for after in ("", " x", " -- x")
    ]
    assert len(commands) > 1000
    assert [command for command in commands if found(command) == "free"] == []


def firsts(name: str) -> set[str]:
    """Return the operands that make a subcommand of git read."""
    return {"", *(GIT_RULES[name].first or ()), "--list"} & {"", "list", "show", "get-url", "--list"}
