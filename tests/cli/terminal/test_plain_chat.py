"""The chat for screen readers and pipes: what its lines decide, and what it writes."""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from tests.support.waiting import await_until

from fleetwright_cli.terminal.headless.outcome import ExitCode, RunOutcome
from fleetwright_cli.terminal.headless.output import TextOutput
from fleetwright_cli.terminal.model.changes import AskClosed, AskOpened, ConnectionChanged, SendRefused
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.values import PendingAsk
from fleetwright_cli.terminal.view.plain_chat import PlainChat

ASK = PendingAsk(task_id="t", identity="q", kind="approval", prompt="Run it?", tool="refund", title="Run refund?")
SECOND = replace(ASK, task_id="u", identity="r", title="Run payment?")


@dataclass
class AskingActions:
    """The text `ask` opens an approval, and `quit` leaves."""

    screen: PlainChat
    state: ChatState = field(default_factory=lambda: ChatState(context_id="c"))
    form: None = None
    calls: list[tuple[str, ...]] = field(default_factory=list)

    async def submit(self, text: str) -> None:
        self.calls.append(("submit", text))
        if text == "ask":
            self.state = replace(self.state, asks=(ASK,))
            self.screen.show(AskOpened(ASK))
        elif text == "quit":
            self.screen.leave()

    def decide(self, ask: PendingAsk, key: str) -> None:
        self.calls.append(("decide", ask.identity, key))
        if not ask.reviewed:
            self.state = replace(self.state, asks=())
            self.screen.show(SendRefused("", "no right"))

    async def cancel(self) -> None:
        self.calls.append(("cancel",))

    def open_tool(self, number: int | None = None) -> None:
        self.calls.append(("open_tool", str(number)))


@dataclass
class Lines:
    write_end: int
    out: io.StringIO
    actions: AskingActions
    running: asyncio.Task[None]

    def type(self, text: str) -> None:
        os.write(self.write_end, text.encode())

    async def until(self, seen: Callable[[], object], what: str) -> None:
        await await_until(seen, what, shown=lambda: (self.out.getvalue(), self.actions.calls), pause=0.005)

    async def shows(self, wanted: str) -> None:
        await self.until(
            lambda: wanted in self.out.getvalue() and self.out.getvalue().endswith("You: "),
            f"the chat shows {wanted!r}",
        )


@asynccontextmanager
async def lines(*, terminal: bool) -> AsyncIterator[Lines]:
    write_end, read_end = os.openpty() if terminal else reversed(os.pipe())
    out = io.StringIO()
    screen = PlainChat(os.fdopen(read_end), out)
    actions = AskingActions(screen)
    running = asyncio.create_task(screen.run(actions))
    try:
        yield Lines(write_end, out, actions, running)
    finally:
        os.close(write_end)
        running.cancel()
        await asyncio.wait({running})


async def test_plain_chat_discards_what_was_typed_before_an_approval():
    async with lines(terminal=True) as found:
        found.type("ask\ny\n")
        await found.shows("[y] approve")
        found.type("y\n")
        await found.shows("Not sent: no right.")
        found.type("quit\n")
        await found.running
        assert found.actions.calls == [("submit", "ask"), ("decide", "q", "y"), ("submit", "quit")]


@pytest.mark.parametrize(
    ("typed", "wanted"), [("y", []), ("a", []), ("n", [("decide", "q", "n")]), ("yes", [("submit", "yes")])]
)
async def test_plain_chat_approves_nothing_from_a_pipe(typed, wanted):
    async with lines(terminal=False) as found:
        found.type(f"ask\n{typed}\nquit\n")
        await found.running
        assert found.actions.calls == [("submit", "ask"), *wanted, ("submit", "quit")]
        assert ("standard input is not a terminal" in found.out.getvalue()) is (wanted == [])


async def test_plain_chat_decides_only_the_approval_of_its_prompt():
    async with lines(terminal=True) as found:
        found.type("ask\n")
        await found.shows("[y] approve")
        found.actions.state = replace(found.actions.state, asks=(SECOND,))
        found.type("y\n")
        await found.shows("Another call waits now.")
        assert found.actions.calls == [("submit", "ask")]
        found.type("y\n")
        await found.until(lambda: found.actions.calls[1:] == [("decide", "r", "y")], "the second call is approved")


async def test_plain_chat_continues_after_a_key_without_effect():
    async with lines(terminal=False) as found:
        found.actions.state = replace(found.actions.state, asks=(replace(ASK, reviewed=True),))
        found.type("n\nquit\n")
        await found.running
        assert found.actions.calls == [("decide", "q", "n"), ("submit", "quit")]


@pytest.mark.parametrize(
    "change",
    [
        SendRefused("", "no \x1b[2J right"),
        AskClosed(replace(ASK, title="\x1b[2J"), "approved, always \x1b[2J"),
        ConnectionChanged(False, "no \x1b[2J connection"),
    ],
)
async def test_plain_chat_writes_no_control_characters(change):
    out = io.StringIO()
    PlainChat(io.StringIO(), out).show(change)
    assert "[2J" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_text_output_writes_no_control_characters():
    out, err = io.StringIO(), io.StringIO()
    output = TextOutput(out, err)
    output.begin({"agent": "\x1b[2Jdesk", "contextId": "c"})
    output.change(AskClosed(ASK, "approved \x1b[2J"))
    ended = RunOutcome(code=ExitCode.FAILED, state="failed", answer="\x1b[2J", reason="\x1b[2J", ask=ASK)
    output.end(replace(ended, task_id="\x1b[2J"))
    assert "\x1b" not in out.getvalue() + err.getvalue()
    assert "[2Jdesk" in err.getvalue()
