"""The rows of the live region, at most six: unfinished text, the open ask, the input, and the status."""

from typing import Final, Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import ConditionalContainer, Dimension, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import SearchToolbar

from fleetwright_cli.safe_text import cells, one_line
from fleetwright_cli.terminal.view.chat_screen import ChatActions
from fleetwright_cli.terminal.view.panel import ask_lines, status_text
from fleetwright_cli.terminal.view.transcript import Transcript

ROWS: Final = 6
_INPUT_ROWS: Final = 3


class RowsSource(Protocol):
    """The screen whose state the rows show."""

    buffer: Buffer
    actions: ChatActions | None
    title: str
    notice: str

    @property
    def chosen(self) -> int: ...


class LiveRows:
    def __init__(self, source: RowsSource, transcript: Transcript, output: Output) -> None:
        self._source = source
        self._transcript = transcript
        self._output = output

    def container(self) -> HSplit:
        search = SearchToolbar()
        control = BufferControl(
            self._source.buffer,
            input_processors=[BeforeInput("> ")],
            search_buffer_control=search.control,
            focus_on_click=False,
        )
        panel = FormattedTextControl(lambda: "\n".join(self._panel()))
        return HSplit(
            [
                Window(FormattedTextControl(self._live_text), height=self._live_height, wrap_lines=False),
                ConditionalContainer(
                    Window(panel, height=lambda: len(self._panel())), filter=Condition(lambda: bool(self._panel()))
                ),
                Window(control, height=self._input_height, wrap_lines=True, dont_extend_height=True),
                search,
                Window(FormattedTextControl(self._bottom), height=1, wrap_lines=False),
            ]
        )

    def _panel(self) -> list[str]:
        actions = self._source.actions
        if actions is None:
            return []
        return ask_lines(actions.state.asks, self._source.chosen, actions.form, self._columns)

    @property
    def _columns(self) -> int:
        return self._output.get_size().columns

    def _live_text(self) -> StyleAndTextTuples:
        return to_formatted_text(ANSI("\n".join(self._live_lines())))

    def _live_lines(self) -> list[str]:
        self._transcript.width = self._columns
        return self._transcript.live(ROWS - len(self._panel()) - self._input_rows() - 1)

    def _live_height(self) -> Dimension:
        return Dimension.exact(len(self._live_lines()))

    def _input_rows(self) -> int:
        lines = self._source.buffer.text.split("\n")
        rows = sum(max(1, -(-(cells(line) + 3) // self._columns)) for line in lines)
        return min(_INPUT_ROWS - (1 if self._panel() else 0), rows)

    def _input_height(self) -> Dimension:
        return Dimension.exact(self._input_rows())

    def _bottom(self) -> StyleAndTextTuples:
        completion = self._source.buffer.complete_state
        if has_completions() and completion is not None:
            names = [each.display_text for each in completion.completions]
            return _candidates(names, completion.complete_index, self._columns)
        actions = self._source.actions
        state = None if actions is None else actions.state
        return [("ansibrightblack", status_text(self._source.title, state, self._source.notice, self._columns))]


def _candidates(names: list[str], chosen: int | None, width: int) -> StyleAndTextTuples:
    """Return one row of completions that begins near the chosen one."""
    shown: StyleAndTextTuples = []
    at = max(0, (chosen or 0) - 1)
    room = width
    for index, name in enumerate(names[at:], start=at):
        room -= cells(name) + 2
        if room < 0:
            break
        shown += [("reverse" if index == chosen else "", one_line(name, width)), ("", "  ")]
    return shown
