"""Decides which actions the role of a caller allows. Pure.

The first entry that matches a caller applies. A caller without an entry is not restricted. If an agent acts for a
principal, both take part in the call, and only the actions that both entries allow remain.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

WILDCARD: Final = "*"
"""The wildcard at the end of a pattern; by itself, it matches every caller."""
PATTERN: Final = r"^([*]|(agent|client|user):([*]|[ -)+-~]+[*]?))$"
"""The pattern of a caller: `kind:name`, `kind:prefix*` or `*`, with the plain names of persons."""


class CallerAction(StrEnum):
    DELEGATE = "Delegate"
    """Giving work to other agents."""
    REQUEST_APPROVAL = "RequestApproval"
    """Waiting for the approval of a tool call. A caller without this action cannot give approvals either."""
    READ_MEMORY = "ReadMemory"
    WRITE_MEMORY = "WriteMemory"
    USE_WRITE_TOOLS = "UseWriteTools"
    """Calls of MCP servers, plugins and the workspace that are not declared free of side effects."""


EVERY_ACTION: Final = frozenset(CallerAction)


class Role(StrEnum):
    UNRESTRICTED = "Unrestricted"
    READ_ONLY = "ReadOnly"
    MEMORY_READ_ONLY = "MemoryReadOnly"
    NO_MEMORY = "NoMemory"
    NO_DELEGATION = "NoDelegation"
    NO_APPROVAL = "NoApproval"


ROLES: Final[Mapping[Role, frozenset[CallerAction]]] = {
    Role.UNRESTRICTED: EVERY_ACTION,
    Role.READ_ONLY: frozenset({CallerAction.READ_MEMORY}),
    Role.MEMORY_READ_ONLY: EVERY_ACTION - {CallerAction.WRITE_MEMORY},
    Role.NO_MEMORY: EVERY_ACTION - {CallerAction.READ_MEMORY, CallerAction.WRITE_MEMORY},
    Role.NO_DELEGATION: EVERY_ACTION - {CallerAction.DELEGATE},
    Role.NO_APPROVAL: EVERY_ACTION - {CallerAction.REQUEST_APPROVAL},
}


@dataclass(frozen=True, slots=True)
class CallerPatterns:
    """The patterns of one entry, compiled: each tool call looks for its caller in up to 3,200 patterns."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    def match(self, participant: str) -> bool:
        return participant in self.names or participant.startswith(self.prefixes)


def compile_patterns(patterns: Iterable[str]) -> CallerPatterns:
    """Args: `patterns` are texts that match `PATTERN`."""
    known = frozenset(patterns)
    prefixes = {each for each in known if each.endswith(WILDCARD)}
    return CallerPatterns(known - prefixes, tuple(each.removesuffix(WILDCARD) for each in prefixes))


class RoleEntry(Protocol):
    @property
    def patterns(self) -> CallerPatterns: ...

    @property
    def allowed(self) -> frozenset[CallerAction]: ...


def allowed_actions(participants: Collection[str], entries: Sequence[RoleEntry]) -> frozenset[CallerAction]:
    """Return the actions that the entries of all participants of a call allow.

    Args: `participants` are the principal and the agents that act for it, with the plain names of persons.
    """
    allowed = EVERY_ACTION
    for participant in participants:
        entry = next((each for each in entries if each.patterns.match(participant)), None)
        allowed = allowed if entry is None else allowed & entry.allowed
    return allowed
