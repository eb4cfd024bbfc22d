"""Authorizes requests to the administrators' endpoints, and validates their parameters."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote

from starlette.requests import Request

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.config.callers import PERSON, SAFE, VIA, CallerKind, owner_key

FORBIDDEN: Final = "Only clients that auth.administrators names may read or erase the agent's memory."
OWNER_RULE: Final = "owner must be client:<name>, agent:<namespace>/<name> or user:<name>"
_KINDS: Final = (*(f"{kind}:" for kind in CallerKind), PERSON)
_LONGEST: Final = 512


class AdministratorAccess:
    def __init__(self, names: Collection[str]) -> None:
        """Args: `names` are the names of clients that are administrators."""
        self._administrators = frozenset(f"{CallerKind.CLIENT}:{name}" for name in names)

    def parameters(self, request: Request, known: Collection[str]) -> Mapping[str, str] | HttpRefusal:
        """Return the parameters of an administrator's request. A misspelt parameter must not widen a request."""
        if who(request) not in self._administrators:
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
