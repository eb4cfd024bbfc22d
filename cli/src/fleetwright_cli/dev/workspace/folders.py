"""The folders that a user chooses for workspaces: `AGENT=FOLDER`."""

from collections.abc import Iterable
from pathlib import Path


def parse_folders(words: Iterable[str]) -> dict[str, Path]:
    """Return the folders by agent.

    Raises:
        ValueError: A word has another form, a folder does not exist, or an agent is named twice.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not (name and equals and folder):
            raise ValueError(f"{word!r} is not AGENT=FOLDER")
        if name in found:
            raise ValueError(f"{name!r} is named twice")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise ValueError(f"{folder!r} is not a folder; create it first")
        found[name] = path.resolve()
    return found
