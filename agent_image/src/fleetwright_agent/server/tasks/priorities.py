"""The priority of a turn in the queue, from the metadata of its message and from the agent's configuration. Pure."""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Any, Final

from fleetwright_a2a.extensions import PRIORITY

_ACTING: Final = " via "
"""Separates the principal from the agent that acts for it, in the name of a caller."""


class Priority(IntEnum):
    HIGH = 100
    NORMAL = 50
    LOW = 10


_WORDS: Final = {each.name.lower(): each for each in Priority}


def priority_of(owner: str, metadata: Mapping[str, Any], *, high_callers: Collection[str]) -> Priority:
    """Return the priority of a message. Other words than those of the levels mean normal priority.

    Args:
        owner: The caller of the agent. If an agent acts for a principal, this agent is the caller.
        metadata: The metadata of the message.
        high_callers: The callers whose messages may have high priority.
    """
    wanted = _WORDS.get(str(metadata.get(PRIORITY, "")), Priority.NORMAL)
    may_be_high = owner.rpartition(_ACTING)[2] in high_callers
    return wanted if may_be_high else min(wanted, Priority.NORMAL)
