"""The reason why a woken agent does not serve, read from its status. Pure.

Callers see the result, and not every caller may read Agents. Therefore it contains the reason of a condition, which is
one documented word, and never the message, which may contain lines of the agent's log or names of nodes and images.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_STAGES: Final = ("Accepted", "ReferencesResolved", "Programmed", "Available")
"""The conditions that must be true before an agent serves, in their order."""
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")


def first_false_condition(status: Mapping[str, Any]) -> str:
    """Return the first stage in the status of an Agent that is False, with its reason, or an empty text."""
    listed = status.get("conditions")
    found = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    for stage in _STAGES:
        condition = next((each for each in found if each.get("type") == stage), None)
        if condition is not None and condition.get("status") == "False":
            reason = condition.get("reason")
            is_word = isinstance(reason, str) and _REASON.fullmatch(reason) is not None
            return f"{stage} is False, {reason}" if is_word else f"{stage} is False"
    return ""
