"""Authorizes requests to the administrators' endpoints, and validates their parameters."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pydantic import ValidationError
from starlette.requests import Request

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.config.callers import PERSON, SAFE, VIA, Administrators, CallerKind, owner_key
from fleetwright_agent.config.file_watcher import FileWatcher

FORBIDDEN: Final = "Only clients that auth.administrators names may read or erase the agent's memory."
OWNER_RULE: Final = "owner must be client:<name>, agent:<namespace>/<name> or user:<name>"
_KINDS: Final = (*(f"{kind}:" for kind in CallerKind), PERSON)
_LONGEST: Final = 512


def parse_administrators(raw: bytes) -> Administrators:
    """Parse `administrators.json`. Raises: ValueError: the file is invalid."""
    try:
        return Administrators.model_validate_json(raw)
    except ValidationError as error:
        places = sorted({".".join(str(step) for step in e["loc"]) for e in error.errors()})
        raise ValueError(f"check {', '.join(places) or 'its shape'}") from None


def watch_administrators(file: Path, *, configured: Collection[str]) -> Callable[[], Collection[str]]:
    """Return a function that returns the names in a mounted file. An invalid file names no client.

    Args:
        file: `administrators.json`.
        configured: The names that count if there is no such file.
    """
    watcher = FileWatcher(file, parse_administrators)

    def read_names() -> Collection[str]:
        found, _ = watcher.recent()
        if found is not None:
            return found.administrators
        return () if file.exists() else configured

    return read_names


class AdministratorAccess:
    def __init__(self, read_names: Callable[[], Collection[str]]) -> None:
        """Args: `read_names` returns the names of the clients that are administrators now."""
        self._read_names = read_names

    def parameters(self, request: Request, known: Collection[str]) -> Mapping[str, str] | HttpRefusal:
        """Return the parameters of an administrator's request. A misspelt parameter must not widen a request."""
        if who(request) not in {f"{CallerKind.CLIENT}:{name}" for name in self._read_names()}:
            return refuse(403, FORBIDDEN)
        given = [name for name, _ in request.query_params.multi_items()]
        unknown = sorted(set(given) - set(known))
        if unknown:
            named = " and ".join(known) if known else "none"
            return refuse(400, f"There is no parameter {unknown[0][:40]!r}; the parameters are {named}.")
        if len(given) > len(set(given)):
            # Parsers disagree on which of two values counts, so a proxy may have checked the other value.
            return refuse(400, f"A parameter is given twice; give {' and '.join(known)} once each.")
        return dict(request.query_params)


def who(request: Request) -> str:
    return str(request.scope["user"].display_name)


def owner_of(text: str) -> str | None:
    """Return the owner key that a parameter names, or None if it names none. A person may have the plain name."""
    if not (text.startswith(_KINDS) and is_plain(text)):
        return None
    is_encoded = VIA in text or quote(text, safe=f"{SAFE}%") == text
    return text if is_encoded else owner_key(text)


def is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= _LONGEST
