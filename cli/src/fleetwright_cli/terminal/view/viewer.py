"""What is shown on the alternate screen: a viewer for long texts, verbatim, and a picker of one row from a list."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.lexers import Lexer, SimpleLexer
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import SearchToolbar, TextArea

from fleetwright_cli.safe_text import one_line, safe_text

_STYLES: Final = {"+": "ansigreen", "-": "ansired", "@": "ansicyan"}
_LINES: Final = 400
_ROW: Final = 200
_PAGE: Final = 10


def is_diff(text: str) -> bool:
    """Return whether a text contains a unified diff near its beginning."""
    lines = text.splitlines()[:_LINES]
    return any(line.startswith("@@ ") for line in lines) and any(line[:1] in "+-" for line in lines if line)


class DiffLexer(Lexer):
    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        def line(number: int) -> StyleAndTextTuples:
            text = document.lines[number] if number < len(document.lines) else ""
            return [(_STYLES.get(text[:1], ""), text)]

        return line


def viewer(title: str, text: str, *, input: Input, output: Output) -> Application[None]:  # noqa: A002 - the library's name
    """Return the application that shows a text. q, Esc, Ctrl-C and Ctrl-O close it; / searches."""
    shown = safe_text(text)
    search = SearchToolbar()
    area = TextArea(
        text=shown,
        read_only=True,
        scrollbar=False,
        wrap_lines=not is_diff(shown),
        search_field=search,
        lexer=DiffLexer() if is_diff(shown) else SimpleLexer(),
    )
    keys = KeyBindings()

    @keys.add("q")
    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-o")
    def _close(event: KeyPressEvent) -> None:
        event.app.exit()

    head = f" {one_line(title, 100)}   q closes, / searches"
    return _full_screen(HSplit([_title(head), area, search]), area, keys, input, output)


class _Rows:
    """The rows of a picker, one of which is selected."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._shown = [one_line(row, _ROW) for row in rows]
        self.selected = 0

    def lines(self) -> StyleAndTextTuples:
        return [("reverse" if row == self.selected else "", f" {text}\n") for row, text in enumerate(self._shown)]

    def position(self) -> Point:
        return Point(0, self.selected)

    def keys(self) -> KeyBindings:
        """Return the keys that move the selection."""
        keys, last = KeyBindings(), len(self._shown) - 1
        moves: dict[tuple[str, ...], Callable[[], int]] = {
            ("up", "k"): lambda: self.selected - 1,
            ("down", "j"): lambda: self.selected + 1,
            ("pageup",): lambda: self.selected - _PAGE,
            ("pagedown",): lambda: self.selected + _PAGE,
            ("home", "g"): lambda: 0,
            ("end", "G"): lambda: last,
        }
        for names, target in moves.items():
            for name in names:
                keys.add(name)(partial(self._move, target))
        return keys

    def _move(self, target: Callable[[], int], _: KeyPressEvent) -> None:
        self.selected = min(max(target(), 0), len(self._shown) - 1)


def picker(
    title: str,
    rows: Sequence[str],
    *,
    input: Input,  # noqa: A002 - the library's name
    output: Output,
) -> Application[int | None]:
    """Return the application that returns the index of the chosen row, or None. Args: `rows` has at least one row."""
    shown = _Rows(rows)
    keys = shown.keys()

    @keys.add("enter")
    def _choose(event: KeyPressEvent) -> None:
        event.app.exit(result=shown.selected)

    @keys.add("q")
    @keys.add("escape", eager=True)
    @keys.add("c-c")
    def _close(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    head = f" {one_line(title, 60)}   arrows move, Enter chooses, q closes"
    control = FormattedTextControl(shown.lines, focusable=True, show_cursor=False, get_cursor_position=shown.position)
    body = Window(control, wrap_lines=False)
    return _full_screen(HSplit([_title(head), body]), body, keys, input, output)


def _title(text: str) -> Window:
    return Window(FormattedTextControl([("reverse", text)]), height=1)


def _full_screen(
    rows: HSplit,
    focused: Window | TextArea,
    keys: KeyBindings,
    input: Input,  # noqa: A002 - the library's name
    output: Output,
) -> Application[Any]:
    return Application(
        layout=Layout(rows, focused_element=focused),
        key_bindings=keys,
        full_screen=True,
        mouse_support=False,
        input=input,
        output=output,
    )
