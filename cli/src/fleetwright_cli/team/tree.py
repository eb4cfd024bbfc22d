"""A team as a tree: an agent, its children by `spec.fleet.parent`, and theirs. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api.spec.agent import parse_agent
from fleetwright_cli.cluster.tables import visible

Object = Mapping[str, Any]
"""An Agent as the API server returns it."""


@dataclass(frozen=True)
class Member:
    agent: Object
    depth: int
    is_last: tuple[bool, ...]
    """For each level below the top: whether the branch ends there, which decides how lines are drawn."""

    @property
    def name(self) -> str:
        return name_of(self.agent)

    @property
    def phase(self) -> str | None:
        phase: str | None = (self.agent.get("status") or {}).get("phase")
        return phase

    @property
    def ready(self) -> Mapping[str, Any]:
        """The condition `Ready`; empty before the operator has written it."""
        conditions = (self.agent.get("status") or {}).get("conditions") or ()
        found: Mapping[str, Any] = next((each for each in conditions if each["type"] == "Ready"), {})
        return found


def name_of(agent: Object) -> str:
    return str(agent["metadata"]["name"])


def parent_of(agent: Object) -> str | None:
    parent = parse_agent(agent).spec.fleet.parent
    return None if parent is None else parent.name


def tops(agents: Sequence[Object]) -> list[Object]:
    """Return the agents without an existing parent, and one agent of each cycle, sorted by name."""
    ordered = sorted(agents, key=name_of)
    known = {name_of(agent) for agent in ordered}
    found = [agent for agent in ordered if parent_of(agent) not in known]
    reached = {member.name for top in found for member in members(top, ordered)}
    for agent in ordered:
        if name_of(agent) not in reached:  # Its ancestors form a cycle.
            found.append(agent)
            reached |= {member.name for member in members(agent, ordered)}
    return found


def members(top: Object, agents: Sequence[Object]) -> Iterator[Member]:
    """Yield the agent and its descendants, parents before children. A cycle ends where it repeats."""
    children: dict[str, list[Object]] = {}
    for agent in sorted(agents, key=name_of):
        parent = parent_of(agent)
        if parent is not None:
            children.setdefault(parent, []).append(agent)
    seen: set[str] = set()

    def walk(agent: Object, is_last: tuple[bool, ...]) -> Iterator[Member]:
        seen.add(name_of(agent))
        yield Member(agent, len(is_last), is_last)
        below = [child for child in children.get(name_of(agent), ()) if name_of(child) not in seen]
        for child in below:
            if name_of(child) not in seen:
                yield from walk(child, (*is_last, child is below[-1]))

    return walk(top, ())


def stay_suspended(team: Sequence[Member]) -> frozenset[str]:
    """Return the names of the members that their own spec suspends, or that a member above them suspends.

    Args: `team` has parents before their children, as `members` yields them.
    """
    suspended: set[str] = set()
    suspends_below: set[str] = set()
    for member in team:
        spec = parse_agent(member.agent).spec
        is_below = spec.fleet.parent is not None and spec.fleet.parent.name in suspends_below
        if is_below or spec.suspend:
            suspended.add(member.name)
        if is_below or (spec.suspend and spec.fleet.suspend_team):
            suspends_below.add(member.name)
    return frozenset(suspended)


def render(found: Sequence[Member]) -> str:
    """Return a table with the tree in its first column."""
    rows = [("NAME", "PHASE", "READY", "REASON"), *(_row(member) for member in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(member: Member) -> tuple[str, str, str, str]:
    *above, last = member.is_last or (True,)
    stem = "".join("   " if ended else "│  " for ended in above) + ("└─ " if last else "├─ ") if member.depth else ""
    ready = member.ready
    reason = (member.agent.get("status") or {}).get("reason") or ready.get("reason") or "-"
    written = (member.phase or "-", ready.get("status") or "Unknown", reason)
    phase, status, shown_reason = (visible(str(text)) for text in written)
    return stem + member.name, phase, status, shown_reason
