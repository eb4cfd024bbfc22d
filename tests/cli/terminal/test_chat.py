"""`fleetwright chat` on a pseudo-terminal against a real agent: approval, resize, keys, and lost streams."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from tests.cli.terminal.screen import FULL_CLEAR, ForkedTerminal, PtyScreen, on_screen
from tests.support.cli.cut_proxy import cut_proxy
from tests.support.cli.fleet import Fleet, environment
from tests.support.machine import ceiling, is_in_ci
from tests.support.waiting import wait_until

SIZES = [pytest.param(80, 24, id="80x24"), pytest.param(200, 60, id="200x60")]


def chat(fleet: Fleet, *words: str, columns: int = 80, rows: int = 24, **environ: str):
    """Show a chat that is a fork. The chat in tmux starts as the user's does."""
    command = ("fleetwright_cli", "chat", "--state", str(fleet.state), "desk", *words)
    environ = environment(fleet.home, **environ)
    return on_screen(command, environ=environ, columns=columns, rows=rows, terminal=ForkedTerminal)


def ready(screen: PtyScreen) -> None:
    def is_ready() -> bool:
        return any(line.startswith("desk · ") and line.endswith("· ready") for line in screen.lines)

    screen.wait_until(is_ready, "a line begins with the agent's name and ends with `ready`")


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_chat_approves_a_call_in_place(fleet: Fleet, columns, rows) -> None:
    with chat(fleet, columns=columns, rows=rows) as screen:
        ready(screen)
        screen.type("Refund order A-1002.\r")
        screen.wait("[y] approve")
        assert '{"order": "A-1002"}' in screen.text
        time.sleep(0.35)
        screen.type("y")
        screen.wait("Run orders__refund_order?: approved")
        screen.wait("● orders__refund_order")
        ready(screen)
        assert re.search(r"model gpt-4o · ctx \d+ % of 128k", screen.text)
        assert "[y] approve" not in screen.text
        assert FULL_CLEAR not in screen.sent


def test_chat_declines_a_call_and_shows_details(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        screen.type("Refund order A-1002.\r")
        screen.wait("[y] approve")
        time.sleep(0.35)
        screen.type("d")
        screen.wait("q closes, / searches")
        screen.type("q")
        screen.wait("[y] approve")
        screen.type("n")
        screen.wait("Run orders__refund_order?: declined")
        ready(screen)


def test_chat_echoes_keys_while_text_streams(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        screen.type("Talk. [[long:120]] [[pause:0.02]]\r")
        screen.wait("word20")
        for number, key in enumerate("next question", start=1):
            screen.type(key)
            line = f"> {'next question'[:number]}".rstrip()
            screen.wait_until(lambda line=line: line in screen.lines, f"a line is {line!r}")
        screen.type("\r")
        screen.wait("1 queued")
        screen.wait("> next question")
        screen.wait("I read your message: next")
        ready(screen)
        assert (
            screen.text.index("word119") < screen.text.index("> next question") < screen.text.index("My instructions")
        )
        assert FULL_CLEAR not in screen.sent


def test_chat_writes_few_bytes_for_each_character(fleet: Fleet) -> None:
    with chat(fleet, columns=120, rows=40) as screen:
        ready(screen)
        before = len(screen.sent)
        screen.type("Talk. [[long:800]] [[pause:0.002]]\r")
        screen.wait("word799")
        ready(screen)
        sent = screen.sent[before:]
        assert FULL_CLEAR not in sent
        assert len(sent.encode()) / sum(len(f"word{number} ") for number in range(800)) <= 15


def test_chat_cancels_the_task_with_ctrl_c(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        screen.type("Talk. [[long:400]] [[pause:0.05]]\r")
        screen.wait("word10")
        screen.type("\x03")
        screen.wait("cancelled")
        ready(screen)
        screen.type("\x03")
        screen.wait("Press Ctrl-C again to leave.")
        screen.type("\x03")
        screen.wait_for_end()


def test_chat_leaves_the_task_running_with_ctrl_d(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        screen.type("Refund order A-1002.\r")
        screen.wait("[y] approve")
        screen.type("\x04")
        screen.wait("to continue: --resume ")
        screen.wait_for_end()
        context = re.search(r"--resume (\S+)", screen.text)
    assert context
    with chat(fleet, "--resume", context[1]) as screen:
        screen.wait("[y] approve")
        time.sleep(0.35)
        screen.type("y")
        screen.wait("Run orders__refund_order?: approved")
        ready(screen)


def test_chat_restores_the_terminal_when_it_is_ended(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        os.kill(screen.process.pid, signal.SIGTERM)
        screen.wait_for_end()
        assert screen.process.exitstatus == 0
        assert screen.sent.rindex("\x1b[?2004l") > screen.sent.rindex("\x1b[?2004h")


def test_chat_resumes_a_stream_after_a_lost_connection(fleet: Fleet, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(fleet.address["token"])
    gate, streamed = threading.Event(), threading.Event()
    fleet.model.scripts["[chat]"] = ["One two. ", streamed.set, lambda: gate.wait(ceiling()), "Three four."]
    with cut_proxy(fleet.address["url"]) as proxy:
        command = ("fleetwright_cli", "chat", "--url", proxy.url, "--token-file", str(token))
        with on_screen(command, environ=environment(fleet.home), terminal=ForkedTerminal) as screen:
            screen.wait("· ready")
            screen.type("say [chat]\r")
            screen.wait("One two.")
            assert streamed.wait(ceiling())
            proxy.closed = True
            proxy.cut()
            screen.wait("connection lost")
            proxy.closed = False
            gate.set()
            screen.wait("One two. Three four.")
            screen.wait("· ready")
            assert screen.text.count("One two.") == 1


def test_chat_strips_escape_sequences_of_the_agent(fleet: Fleet) -> None:
    fleet.model.scripts["[hostile]"] = ["before \x1b[2J\x9b2J", "\x1b]0;title\x07 after \x1b[?1049h"]
    with chat(fleet) as screen:
        ready(screen)
        screen.type("say [hostile]\r")
        screen.wait("before [2J2J]0;title after [?1049h")
        assert FULL_CLEAR not in screen.sent
        assert "\x1b[?1049h" not in screen.sent
        assert "\x9b" not in screen.sent


def test_chat_without_colours_writes_none(fleet: Fleet) -> None:
    with chat(fleet, NO_COLOR="1") as screen:
        ready(screen)
        screen.type("Look up order A-1002.\r")
        screen.wait("desk lamp")
        ready(screen)
        assert not re.search(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7]|38|48)[0-9;]*m", screen.sent)


@pytest.mark.parametrize(
    ("words", "environ"),
    [pytest.param(["--plain"], {}, id="plain"), pytest.param([], {"TERM": "dumb"}, id="a dumb terminal")],
)
def test_chat_writes_whole_blocks_without_a_live_region(fleet: Fleet, words, environ) -> None:
    with chat(fleet, *words, **environ) as screen:
        screen.wait("You:")
        screen.type("Refund order A-1002.\n")
        screen.wait("[y] approve")
        screen.type("y\n")
        screen.wait("Agent: ")
        screen.type("/quit\n")
        screen.wait_for_end()
        assert "\x1b" not in screen.sent


def test_chat_keeps_its_files_private(fleet: Fleet) -> None:
    with chat(fleet) as screen:
        ready(screen)
        screen.type("Look up order A-1002.\r")
        screen.wait("desk lamp")
        ready(screen)
        screen.type("\x04")
        screen.wait_for_end()
    folder = fleet.home / "state" / "fleetwright"
    files = [path for path in folder.iterdir() if path.is_file()]
    assert {"history", "conversations.json"} <= {path.name for path in files}
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert fleet.address["token"] not in "".join(path.read_text() for path in files)


@pytest.mark.skipif(shutil.which("tmux") is None and not is_in_ci(), reason="tmux is not installed")
def test_chat_survives_a_resize_in_tmux(fleet: Fleet, tmp_path: Path) -> None:
    server = ["tmux", "-S", str(tmp_path / "tmux")]
    environ = environment(fleet.home)

    def tmux(*words: str) -> str:
        ended = subprocess.run(
            [*server, *words], capture_output=True, text=True, timeout=ceiling(), check=True, env=environ
        )
        return ended.stdout

    def wait_for_pane(seen, what: str) -> None:
        wait_until(lambda: seen(tmux("capture-pane", "-p")), what, shown=lambda: tmux("capture-pane", "-p"))

    command = fleet.words("chat", "--state", str(fleet.state), "desk")
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", *command)
    try:
        wait_for_pane(lambda text: "· ready" in text, "the agent is ready")
        tmux("send-keys", "-l", "Talk. [[long:150]] [[pause:0.01]]")
        tmux("send-keys", "Enter")
        wait_for_pane(lambda text: "word40" in text, "the text streams")
        for columns in ("70", "120", "100"):
            tmux("resize-window", "-x", columns, "-y", "30")
            tmux("send-keys", "-l", "k")
            wait_until(
                lambda columns=columns: tmux("display", "-p", "#{pane_width}").strip() == columns,
                f"the pane has {columns} columns",
            )
        wait_for_pane(lambda text: "word149" in text and "· ready" in text, "the text ends")
        tmux("send-keys", "C-l")
        wait_for_pane(lambda text: text.count("· ready") == 1, "the screen is drawn anew")
        shown = tmux("capture-pane", "-p")
        assert shown.count("> kkk") == 1
        assert shown.count("word149") == 1
    finally:
        tmux("kill-server")
