"""The inline screen with piped keys and an emulated terminal: what it shows, what keys do, and what it writes."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyte
import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from tests.support.waiting import await_until, within

from fleetwright_cli.terminal.model.changes import (
    AskClosed,
    AskOpened,
    FileReceived,
    PhaseChanged,
    TextAdded,
    TodosChanged,
    ToolChanged,
    UserMessageShown,
)
from fleetwright_cli.terminal.model.forms import FormProgress, form_of
from fleetwright_cli.terminal.model.state import ChatState, TaskProgress
from fleetwright_cli.terminal.model.values import (
    OfferedGrant,
    PendingAsk,
    ReceivedFile,
    TaskPhase,
    TodoItem,
    ToolCard,
)
from fleetwright_cli.terminal.view.inline_chat import InlineChat
from fleetwright_cli.terminal.view.input_line import InputCompleter
from fleetwright_cli.terminal.view.rendering import Renderer
from fleetwright_cli.terminal.view.terminal_output import FrameOutput
from fleetwright_cli.terminal.view.theme import THEMES
from fleetwright_cli.terminal.view.transcript import Transcript

FULL_CLEAR = "\x1b[2J"
ASK = PendingAsk(
    task_id="t", identity="q", kind="approval", prompt="Run it?", tool="refund", title="Run refund?",
    detail='{"order": "A-1"}', grants=(OfferedGrant("k", "more refunds"),),
)  # fmt: skip


@dataclass
class RecordedActions:
    """Actions that record their calls."""

    state: ChatState = field(default_factory=lambda: ChatState(context_id="c"))
    form: FormProgress | None = None
    calls: list[tuple[str, ...]] = field(default_factory=list)

    async def submit(self, text: str) -> None:
        self.calls.append(("submit", text))

    def decide(self, ask: PendingAsk, key: str) -> None:
        self.calls.append(("decide", ask.identity, key))
        if key != "d":
            self.state = replace(self.state, asks=tuple(each for each in self.state.asks if each != ask))

    async def cancel(self) -> None:
        self.calls.append(("cancel",))

    def open_tool(self, number: int | None = None) -> None:
        self.calls.append(("open_tool",))


@dataclass
class Bench:
    chat: InlineChat
    actions: RecordedActions
    keys: PipeInput
    output: io.StringIO
    screen: pyte.HistoryScreen
    stream: pyte.Stream
    seconds: list[float]
    fed: int = 0

    @property
    def text(self) -> str:
        written = self.output.getvalue()
        self.stream.feed(re.sub(r"\x1b\[\?2026[hl]", "", written[self.fed :]))
        self.fed = len(written)
        top = ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in self.screen.history.top]
        return "\n".join([*top, *(line.rstrip() for line in self.screen.display)])

    async def until(self, seen: Callable[[], object], what: str) -> None:
        await await_until(seen, what, shown=lambda: self.text, pause=0.005)

    async def shows(self, wanted: str) -> None:
        await self.until(lambda: wanted in self.text, f"{wanted!r} is on the screen")


@asynccontextmanager
async def bench(*, columns: int = 80, rows: int = 24, vi: bool = False, folder: Path = Path()) -> AsyncIterator[Bench]:
    file = io.StringIO()
    output = FrameOutput(file, lambda: Size(rows=rows, columns=columns), term="xterm", enable_cpr=False)
    screen = pyte.HistoryScreen(columns, rows, history=100_000)
    seconds = [100.0]
    with create_pipe_input() as keys:
        chat = InlineChat(
            "desk",
            Transcript(Renderer(THEMES["dark"], colours="standard")),
            output=output,
            input=keys,
            history=InMemoryHistory(),
            completer=InputCompleter(folder),
            vi=vi,
            clock=lambda: seconds[0],
        )
        actions = RecordedActions()
        found = Bench(chat, actions, keys, file, screen, pyte.Stream(screen), seconds)
        running = asyncio.create_task(chat.run())
        await found.shows("connecting")
        chat.connected(actions)
        await found.shows("ready")
        try:
            yield found
        finally:
            chat.leave()
            await running


async def test_screen_keeps_inputs_until_the_agent_is_connected():
    async with bench() as found:
        found.chat.actions = None
        found.keys.send_text("Early\r")
        await found.shows("The message is sent once")
        found.chat.connected(found.actions)
        await found.until(lambda: found.actions.calls == [("submit", "Early")], "the early message is sent once")


async def test_screen_moves_finished_blocks_to_the_scrollback():
    async with bench() as found:
        found.chat.show(UserMessageShown("Hello"))
        found.chat.show(TextAdded("t", "# Title\n\nFirst block\n\nsecond"))
        await found.shows("second")
        found.chat.show(ToolChanged(ToolCard(call_id="1", name="look_up", number=1, arguments="{}")))
        await found.shows("○ look_up {} → runs")
        ended = ToolCard(call_id="1", name="look_up", number=1, arguments="{}", ok=True, characters=80, seconds=0.1)
        found.chat.show(ToolChanged(ended))
        found.chat.show(PhaseChanged("t", TaskPhase.COMPLETED))
        await found.shows("● look_up {} → 80 characters  0.1 s  [1]")
        lines = [line for line in found.text.splitlines() if line]
        assert lines[:5] == [
            "> Hello", "Title", "First block", "second", "● look_up {} → 80 characters  0.1 s  [1]",
        ]  # fmt: skip
        assert "○" not in found.text


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60), (30, 8)])
async def test_live_region_has_at_most_six_rows(columns, rows):
    async with bench(columns=columns, rows=rows) as found:
        found.chat.show(TextAdded("t", "word " * 600))
        found.actions.state = replace(found.actions.state, asks=(ASK,))
        found.chat.show(AskOpened(ASK))
        await found.shows("[y] approve")
        live = found.chat.app.renderer.last_rendered_screen
        assert live is not None
        assert live.height <= 6


async def test_screen_removes_escape_sequences_of_the_agent():
    async with bench() as found:
        found.chat.show(TextAdded("t", "before \x1b[2J\x9b2J\x1b]0;x\x07 after\n\nnext"))
        found.chat.show(FileReceived(ReceivedFile("a", "\x1b[2Jx.diff", "text/x-diff", "@@ -1 +1 @@\n-\x1b[2Ja\n+b\n")))
        found.chat.show(TodosChanged((TodoItem("\x1b[2J", "pending"),)))
        found.chat.note("note \x1b[2J")
        await found.shows("note")
        assert FULL_CLEAR not in found.output.getvalue()
        assert "\x9b" not in found.output.getvalue()
        assert "]0;x after" in found.text


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        pytest.param("y", [("decide", "q", "y")], id="once"),
        pytest.param("a", [("decide", "q", "a")], id="for the conversation"),
        pytest.param("n", [("decide", "q", "n")], id="decline"),
        pytest.param("d", [("decide", "q", "d")], id="details"),
        pytest.param("hey\r", [("submit", "hey")], id="within a text"),
        pytest.param("2yes\r", [("submit", "2yes")], id="a digit without a batch"),
    ],
)
async def test_approval_keys_count_only_in_an_empty_input(keys, wanted):
    async with bench() as found:
        found.actions.state = replace(found.actions.state, asks=(ASK,))
        found.chat.show(AskOpened(ASK))
        await found.shows("[a] always: more refunds")
        found.seconds[0] += 0.31
        found.keys.send_text(keys)
        await found.until(lambda: found.actions.calls == wanted, f"the chat acts: {wanted}")


@pytest.mark.parametrize(
    ("detail", "wanted"),
    [
        pytest.param('{"order": "A-1"}', 0, id="arguments that fit into the panel"),
        pytest.param("echo " + "a" * 80 + " && rm -r b", 1, id="a command that the panel would cut"),
        pytest.param("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y && rm -r b\n", 1, id="a diff"),
    ],
)
async def test_approval_shows_all_that_will_run(detail, wanted):
    async with bench() as found:
        ask = replace(ASK, detail=detail)
        found.actions.state = replace(found.actions.state, asks=(ask,))
        found.chat.show(AskOpened(ask))
        found.chat.show(FileReceived(ReceivedFile("a", "x.diff", "text/x-diff", detail, 9)))
        await found.shows("file x.diff")
        await found.shows("[y] approve")
        assert found.text.replace("\n", "").count("&& rm -r b") == wanted


async def test_approval_keys_wait_until_the_panel_was_visible():
    async with bench() as found:
        found.actions.state = replace(found.actions.state, asks=(ASK,))
        found.chat.show(AskOpened(ASK))
        await found.shows("[y] approve")
        found.seconds[0] += 0.29
        found.keys.send_text("y")
        await found.shows("> y")
        assert found.actions.calls == []


SECOND = replace(ASK, task_id="u", identity="r", title="Run payment?")


@asynccontextmanager
async def two_approvals() -> AsyncIterator[Bench]:
    """The first of two approvals has been visible for a second."""
    async with bench() as found:
        found.actions.state = replace(found.actions.state, asks=(ASK, SECOND))
        found.chat.show(AskOpened(SECOND))
        await found.shows("? 1/2 Run refund?")
        found.seconds[0] += 1
        yield found


async def test_digits_choose_among_several_approvals():
    async with two_approvals() as found:
        found.keys.send_text("2")
        await found.shows("? 2/2 Run payment?")
        found.seconds[0] += 0.31
        found.keys.send_text("n")
        await found.until(lambda: found.actions.calls == [("decide", "r", "n")], "the second call is denied")


async def test_approval_keys_decide_only_the_visible_call():
    async with two_approvals() as found:
        found.keys.send_text("yy")
        await found.shows("> y")
        assert found.actions.calls == [("decide", "q", "y")]


async def test_approval_keys_never_move_to_another_call():
    async with two_approvals() as found:
        found.actions.state = replace(found.actions.state, asks=(SECOND,))
        found.keys.send_text("y")
        await found.shows("> y")
        assert found.actions.calls == []
        found.keys.send_text("\x7f")
        await found.until(lambda: found.chat.buffer.text == "", "the input is empty")
        await found.shows("? Run payment?")
        found.seconds[0] += 0.31
        found.keys.send_text("y")
        await found.until(lambda: found.actions.calls == [("decide", "r", "y")], "the second call is approved")


async def test_chosen_approval_stays_when_another_one_closes():
    third = replace(ASK, task_id="v", identity="s", title="Run transfer?")
    async with two_approvals() as found:
        found.keys.send_text("2")
        await found.shows("? 2/2 Run payment?")
        found.seconds[0] += 0.31
        found.actions.state = replace(found.actions.state, asks=(third, SECOND))
        found.chat.show(AskClosed(ASK, "expired"))
        found.keys.send_text("n")
        await found.until(lambda: found.actions.calls == [("decide", "r", "n")], "the second call is denied")


async def test_approval_behind_a_form_takes_no_keys():
    form = form_of(replace(ASK, kind="form", steps=({"schema": {"properties": {"count": {"type": "string"}}}},)))
    async with bench() as found:
        found.actions.form = form
        found.actions.state = replace(found.actions.state, asks=(ASK,))
        found.chat.show(AskOpened(ASK))
        await found.shows("type the value")
        found.seconds[0] += 1
        found.keys.send_text("y")
        await found.shows("> y")
        assert found.actions.calls == []


async def test_ctrl_c_clears_then_cancels_then_leaves():
    async with bench() as found:
        found.keys.send_text("draft\x03")
        await found.until(lambda: found.chat.buffer.text == "", "the input is empty")
        working = {"t": TaskProgress(task_id="t", phase=TaskPhase.WORKING)}
        found.actions.state = replace(found.actions.state, tasks=working)
        found.keys.send_text("\x03")
        await found.until(lambda: found.actions.calls == [("cancel",)], "the task is cancelled")
        found.actions.state = replace(found.actions.state, tasks={})
        found.keys.send_text("\x03")
        await found.shows("Press Ctrl-C again to leave.")
        found.seconds[0] += 2.1
        found.keys.send_text("\x03")
        await asyncio.sleep(0)
        assert found.chat.app.is_running
        found.seconds[0] += 0.5
        found.keys.send_text("\x03")
        await found.until(lambda: not found.chat.app.is_running, "the chat ends")


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        pytest.param("\r", 0, id="the first"),
        pytest.param("jj\x1b[A\r", 1, id="moved down and up"),
        pytest.param("G\r", 39, id="the last, below the screen"),
        pytest.param("kq", None, id="none"),
    ],
)
async def test_picker_returns_the_chosen_row(keys, wanted):
    async with bench() as found:
        rows = [f"row {number}" for number in range(40)]
        picking = asyncio.create_task(found.chat.pick("Conversations\x1b[2J", rows))
        await found.shows("arrows move, Enter chooses, q closes")
        found.chat.show(TextAdded("t", "Meanwhile.\n\nMore"))
        for key in re.findall(r"\x1b\[.|.|\r", keys):
            found.keys.send_text(key)
            await asyncio.sleep(0)
        async with within("the picker ends"):
            assert await picking == wanted
        await found.shows("Meanwhile.")
        assert FULL_CLEAR not in found.output.getvalue().partition("\x1b[?1049h")[0]


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        pytest.param("one\x1b\rtwo\r", "one\ntwo", id="a line with Alt-Enter"),
        pytest.param("/se\t\r", "/sessions ", id="a completed command"),
        pytest.param("see @no\t\r", "see @notes.txt", id="a completed file"),
    ],
)
async def test_keys_edit_the_input(tmp_path, keys, wanted):
    (tmp_path / "notes.txt").touch()
    async with bench(folder=tmp_path) as found:
        for part in re.split(r"(?<=\t)", keys):
            found.keys.send_text(part)
            if part.endswith("\t"):
                word = wanted.strip().split()[-1]
                await found.until(
                    lambda word=word: found.chat.buffer.text.strip().endswith(word), f"the input ends with {word!r}"
                )
        await found.until(lambda: found.actions.calls == [("submit", wanted)], f"the chat submits {wanted!r}")


async def test_vi_keys_edit_the_input():
    async with bench(vi=True) as found:
        found.keys.send_text("one two\x1b")
        await found.until(lambda: found.chat.app.vi_state.input_mode.value == "vi-navigation", "the keys navigate")
        found.keys.send_text("0dwi3 \r")
        await found.until(lambda: found.actions.calls == [("submit", "3 two")], "the chat submits the edited input")


async def test_keys_are_shown_while_text_streams():
    async with bench() as found:
        for number in range(200):
            found.chat.show(TextAdded("t", f"word{number} "))
            if number % 20 == 0:
                found.keys.send_text("k")
                await found.shows(f"> {'k' * (number // 20 + 1)}")
        await found.shows("> kkkkkkkkkk")
        await found.shows("word199")


def words(count: int, start: int = 0) -> list[str]:
    return [f"word{number} " + ("\n\n" if number % 90 == 89 else "") for number in range(start, start + count)]


@pytest.mark.parametrize(
    ("turns", "columns"), [pytest.param(0, 120, id="a new conversation"), pytest.param(200, 120, id="after 200 turns")]
)
async def test_screen_writes_few_bytes_for_each_character(turns, columns):
    async with bench(columns=columns, rows=40) as found:
        for turn in range(turns):
            found.chat.show(UserMessageShown(f"Question {turn}"))
            found.chat.show(TextAdded(f"t{turn}", f"Answer {turn}: " + "it is so. " * 20))
            found.chat.show(PhaseChanged(f"t{turn}", TaskPhase.COMPLETED))
        await found.shows("ready")
        await found.until(lambda: not turns or f"Answer {turns - 1}" in found.text, "the last answer is on the screen")
        before = len(found.output.getvalue())
        streamed = words(300)
        for word in streamed:
            found.chat.show(TextAdded("t", word))
            await asyncio.sleep(0.002)  # the words come one by one
        found.chat.show(PhaseChanged("t", TaskPhase.COMPLETED))
        await found.shows("word299")
        written = found.output.getvalue()[before:]
        assert FULL_CLEAR not in written
        assert len(written) / sum(map(len, streamed)) <= 15
