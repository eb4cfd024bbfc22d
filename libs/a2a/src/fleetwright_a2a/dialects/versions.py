"""Chooses the dialect of a call: by the method, and if several dialects have the method, by the version header or task.

Pure. This module does not decide what a method does.
"""

import re
from collections.abc import Sequence
from typing import Final

from a2a.utils.errors import A2AError, VersionNotSupportedError

from fleetwright_a2a.dialects.dialect import Dialect

UNSTATED: Final = "0.3"
"""The version of a caller that sends no version header."""
_VERSION: Final = re.compile(r"(\d{1,3}\.\d{1,3})(?:\.\d{1,9})?", re.ASCII)
_DIALECTS: Final = {"0.1": "0.1", "0.2": "0.3", "0.3": "0.3", "1.0": "1.0"}
"""The dialect of each version. 0.2 and 0.3 are the same in everything that is supported here."""


def dialect_of(header: str | None) -> str | None:
    """Return the dialect that a version header names, or None if there is no such dialect.

    The patch number does not matter, but another minor version is another version (A2A 1.0, §3.6.2).
    """
    if not header:
        return UNSTATED
    found = _VERSION.fullmatch(header.strip())
    return _DIALECTS.get(found[1]) if found else None


def accepts(dialect: Dialect, header: str | None) -> bool:
    """Return whether a caller with this header may use the dialect. Clients of 0.1 send no version header."""
    return dialect.version == dialect_of(header) or (not header and dialect.version == "0.1")


def speaking(method: str, dialects: Sequence[Dialect]) -> list[Dialect]:
    return [dialect for dialect in dialects if method in dialect.methods]


def choose(candidates: Sequence[Dialect], header: str | None, *, chosen_id: bool) -> Dialect:
    """Return one of the dialects that have the method; without a header, 0.1 for a task whose id the caller chose."""
    wanted = dialect_of(header) if header else "0.1" if chosen_id else UNSTATED
    return next((dialect for dialect in candidates if dialect.version == wanted), candidates[0])


def not_spoken(header: str | None) -> A2AError:
    """Return the error for a call whose version header does not fit its method or path."""
    if not header:
        return VersionNotSupportedError("This needs an A2A-Version header; without one, 0.3 is assumed")
    if dialect_of(header) is None:
        known = ", ".join(_DIALECTS)
        return VersionNotSupportedError(f"The A2A-Version header names an unknown version; use one of {known}")
    return VersionNotSupportedError("This is not supported in the version that the A2A-Version header names")
