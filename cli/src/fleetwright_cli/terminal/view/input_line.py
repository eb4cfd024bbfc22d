"""The input line: completion of commands and mentioned files, and the history, which only the user can read."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from fleetwright_cli.terminal.view.slash_commands import COMMANDS


class InputCompleter(Completer):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the library passes it by name
    ) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name in COMMANDS:
                if name.startswith(text[1:]):
                    yield Completion(f"/{name} ", start_position=-len(text), display=f"/{name}")
            return
        word = text.split()[-1] if text and not text[-1].isspace() else ""
        if word.startswith("@"):
            from fleetwright_cli.terminal.session.mentions import candidates

            for path in candidates(word[1:], self._folder):
                yield Completion(f"@{path}", start_position=-len(word), display=path)


def input_history(environ: Mapping[str, str]) -> History:
    """Return the stored history, or one in memory if the file cannot be written."""
    home = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    path = home / "fleetwright" / "history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
