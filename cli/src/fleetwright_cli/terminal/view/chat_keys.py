"""The keys of the inline terminal, besides those of the editing mode."""

from typing import Any, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from fleetwright_cli.terminal.model.values import PendingAsk


class KeyTarget(Protocol):
    """The screen that the keys act on."""

    buffer: Buffer
    actions: Any

    @property
    def approval(self) -> PendingAsk | None: ...

    def choose(self, number: int) -> bool: ...

    def submit(self) -> None: ...

    def interrupt(self) -> None: ...

    def leave(self) -> None: ...

    def repaint(self) -> None: ...


def chat_keys(screen: KeyTarget) -> KeyBindings:
    keys = KeyBindings()
    editing = Condition(lambda: get_app().layout.current_buffer is screen.buffer)
    empty = Condition(lambda: not screen.buffer.text)
    decides = Condition(lambda: screen.approval is not None)

    @keys.add("enter", filter=editing)
    def _send(_: KeyPressEvent) -> None:
        if screen.buffer.complete_state and screen.buffer.complete_state.current_completion:
            screen.buffer.complete_state = None
        else:
            screen.submit()

    @keys.add("escape", "enter", filter=editing)
    @keys.add("c-j", filter=editing)
    def _line(_: KeyPressEvent) -> None:
        screen.buffer.insert_text("\n")

    @keys.add("c-c")
    def _interrupt(_: KeyPressEvent) -> None:
        screen.interrupt()

    @keys.add("c-d", filter=editing & empty)
    def _leave(_: KeyPressEvent) -> None:
        screen.leave()

    @keys.add("c-l")
    def _repaint(_: KeyPressEvent) -> None:
        screen.repaint()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    @keys.add("c-o", filter=editing)
    def _open(_: KeyPressEvent) -> None:
        if screen.actions is not None:
            screen.actions.open_tool()

    @keys.add("tab", filter=editing)
    def _complete(_: KeyPressEvent) -> None:
        if screen.buffer.complete_state:
            screen.buffer.complete_next()
        else:
            screen.buffer.start_completion(insert_common_part=True)

    for key in "yand":

        @keys.add(key, filter=editing & decides, eager=True)
        def _decide(_: KeyPressEvent, key: str = key) -> None:
            ask = screen.approval
            if ask is not None and screen.actions is not None:
                screen.actions.decide(ask, key)

    for digit in "123456789":

        @keys.add(digit, filter=editing & decides, eager=True)
        def _choose(_: KeyPressEvent, digit: str = digit) -> None:
            if not screen.choose(int(digit)):
                screen.buffer.insert_text(digit)

    return keys
