"""The tool `bash`: its decisions, its output, and commands whose outcome is unknown."""

from typing import Any

import pytest
from tests.support.agent.fake_runner import END, FakeRunner

from fleetwright_agent.tools.port import Allow, Ask, Deny, ToolError
from fleetwright_agent.tools.workspace.output import MOST_STDOUT, CommandOutput

LS, RM, SUDO, TEST = "ls src", "rm x", "sudo ls", "npm test"


@pytest.mark.parametrize(
    ("approval", "command", "kind"),
    [
        ("Tiered", LS, Allow),
        ("Tiered", RM, Ask),
        ("Tiered", TEST, Allow),
        ("Tiered", SUDO, Deny),
        ("Tiered", "cat ../x", Ask),
        ("Tiered", "git status", Allow),
        ("Ask", LS, Ask),
        ("Ask", SUDO, Deny),
        ("Auto", RM, Allow),
        ("Auto", SUDO, Deny),
        ("Auto", "rm -rf / '", Deny),
        ("Auto", "ls; ls", Allow),
        ("Tiered", "rm '", Ask),
    ],
)
async def test_bash_decides_by_tier(bench: Any, approval: str, command: str, kind: type) -> None:
    tools = await bench(approvals={"shell": approval}, shell={"allow": [TEST]})
    assert isinstance(await tools.decide("bash", command=command), kind)


async def test_bash_asks_with_the_whole_command(bench: Any) -> None:
    tools = await bench()
    asked = await tools.decide("bash", command="rm x; echo done")
    assert (asked.preview, len(asked.grants)) == ("rm x; echo done", 1)
    assert asked.grants != (await tools.decide("bash", command="rm y")).grants


async def test_bash_runs_a_reader_without_a_shell(bench: Any) -> None:
    tools = await bench()
    await tools.run("bash", command="ls 'my folder'")
    (command,) = tools.runner.commands
    assert command["argv"] == ["ls", "my folder"]
    assert command["environment"]["PATH"].startswith("/usr/local/sbin")
    assert (command["timeout_seconds"], command["cwd"]) == (30, ".")


async def test_bash_gives_other_commands_to_a_shell(bench: Any) -> None:
    tools = await bench(shell={"timeoutSeconds": 7})
    await tools.run("bash", command="rm x && ls")
    (command,) = tools.runner.commands
    assert (command["command"], command["timeout_seconds"]) == ("rm x && ls", 7)
    assert "argv" not in command


async def test_bash_asks_if_the_repository_has_filters(bench: Any) -> None:
    tools = await bench(runner=FakeRunner(settings=["filter.lfs.clean"]))
    asked = await tools.decide("bash", command="git status")
    assert "names filters" in asked.question


@pytest.mark.parametrize(
    ("keys", "end", "kind"),
    [
        ("core.bare\0user.name\0", END, Allow),
        ("core.bare\0filter.\ufffd.clean\0", END, Ask),
        ("core.bare\0filter.x.y.smudge\0", END, Ask),
        ("filter.x.process\0core.bare\0", END, Ask),
        ("core.worktree\0", END, Ask),
        ("filter.x.required\0", END, Allow),
        ("core.bare", END, Ask),
        ("", END, Ask),
        ("core.bare\0", {**END, "exit": 128}, Ask),
        ("a.b\0" * 20_000, END, Ask),
        ("core.bare\0", None, Ask),
    ],
    ids=lambda value: f"{value!a:.40}",
)
async def test_bash_reads_the_configuration_of_git(bench: Any, keys: str, end: Any, kind: type) -> None:
    class Configured(FakeRunner):
        async def execute(self, arguments: Any) -> Any:
            assert arguments["environment"]["LC_ALL"] == "C"
            yield {"stream": "stdout", "text": keys}
            yield {"end": end} if end else {"lost": True}

    tools = await bench(runner=Configured())
    assert isinstance(await tools.decide("bash", command="git status"), kind)


@pytest.mark.parametrize(
    ("approval", "unapproved", "command", "change", "ran"),
    [
        ("Tiered", True, "git status", {"settings": ["filter.x.clean"]}, None),
        ("Tiered", True, "cat a", {"links": {"/workspace/a": "/etc/passwd"}}, None),
        ("Tiered", True, "rm x", {}, None),
        ("Tiered", True, "cat a", {}, "argv"),
        ("Tiered", False, "cat a", {"links": {"/workspace/a": "/etc/passwd"}}, "command"),
        ("Tiered", False, "rm x", {}, "command"),
        ("Tiered", False, "sudo x", {}, None),
        ("Ask", True, "rm x", {}, None),
        ("Auto", True, "rm x", {}, "command"),
        ("Auto", True, "sudo x", {}, None),
    ],
)
async def test_bash_needs_approval_for_a_shell(
    bench: Any, approval: str, unapproved: bool, command: str, change: dict[str, Any], ran: str | None
) -> None:
    tools = await bench(runner=FakeRunner(**change), approvals={"shell": approval})
    if ran is None:
        with pytest.raises(ToolError, match=r"needs approval after all|never runs"):
            await tools.run("bash", command=command, unapproved=unapproved)
        assert [each for each in tools.runner.commands if "--name-only" not in each["argv"]] == []
    else:
        await tools.run("bash", command=command, unapproved=unapproved)
        assert ran in tools.runner.commands[-1]


def run(*events: dict[str, Any]) -> FakeRunner:
    return FakeRunner(events=events)


OUT, ERR = {"stream": "stdout", "text": "out\n"}, {"stream": "stderr", "text": "err\n"}


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([{"end": END}], "[The command succeeded without output.]"),
        ([OUT, {"heartbeat": True}, ERR, OUT, {"end": END}], "out\nout\n[stderr]\nerr"),
        ([OUT, {"end": {**END, "exit": 3}}], "[The command ended with exit code 3.]\nout"),
        ([OUT, {"cut": 9}, OUT, {"end": END}], "out\n\n[9 characters are cut here]\nout"),
    ],
)
async def test_bash_returns_the_output(bench: Any, events: list[dict[str, Any]], text: str) -> None:
    tools = await bench(runner=run(*events))
    assert (await tools.run("bash", command=RM)).text == text
    assert "".join(tools.written) == "".join(event.get("text", "") for event in events)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([OUT, {"end": {**END, "exit": None, "timed_out": True}}], "time limit. Its output so far:\nout"),
        ([OUT, {"end": {**END, "exit": None, "signal": "SIGKILL"}}], "ended: SIGKILL. Its output so far:\nout"),
        ([OUT, {"end": {**END, "exit": None, "signal": "SIGKILL", "stopped": "memory"}}], "used too much memory"),
        ([OUT, {"lost": True}], "unknown whether the command had its effects"),
        ([OUT], "unknown whether the command had its effects"),
    ],
)
async def test_bash_without_an_end_is_an_error(bench: Any, events: list[dict[str, Any]], words: str) -> None:
    tools = await bench(runner=run(*events))
    with pytest.raises(ToolError, match=words):
        await tools.run("bash", command=RM)


async def test_bash_never_runs_a_call_twice(bench: Any) -> None:
    tools = await bench()
    assert not tools.tools["bash"].repeatable
    await tools.run("bash", command=RM)
    with pytest.raises(ToolError, match="was started before; it is unknown"):
        await tools.run("bash", command=RM)
    await tools.run("bash", command=RM, key="another call")
    assert len(tools.runner.commands) == 2


def test_output_keeps_head_and_tail() -> None:
    output = CommandOutput()
    for number in range(20_000):
        output.add({"stream": "stdout", "text": f"{number:09}\n"})
    text = output.whole()
    assert text.startswith("000000000\n")
    assert text.endswith("000019999")
    assert "[150000 characters are cut here]" in text
    assert len(text) < MOST_STDOUT + 100
    assert len(output.partial()) < 5_100
