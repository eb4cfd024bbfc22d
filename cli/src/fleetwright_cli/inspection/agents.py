"""The table of agents. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fleetwright_api.spec.agent import parse_agent
from fleetwright_cli.cluster.tables import age, visible

Object = Mapping[str, Any]
_HEAD: Final = ("NAME", "PHASE", "READY", "REASON", "MODEL", "SPENT", "ACTIVE", "AGE")
_MOST_NAMES: Final = 3
"""The most agents that a line names before it only counts the others."""


def agent_rows(agents: Iterable[Object], *, now: datetime, with_namespace: bool) -> list[tuple[str, ...]]:
    """Return the header and one row for each agent, sorted by namespace and name."""
    ordered = sorted(agents, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"]))
    head = ("NAMESPACE", *_HEAD) if with_namespace else _HEAD
    return [head, *(_row(each, now, with_namespace) for each in ordered)]


def describe_unserved_agents(unserved: Mapping[str, Sequence[Object]], *, with_namespace: bool) -> list[str]:
    """Return one line for each reason why no operator works on agents, with their names."""
    lines = []
    for reason, agents in unserved.items():
        named = [_qualified_name(each) if with_namespace else str(each["metadata"]["name"]) for each in agents]
        others = f" and {len(named) - _MOST_NAMES} others" if len(named) > _MOST_NAMES + 1 else ""
        shown = named[:_MOST_NAMES] if others else named
        lines.append(f"{', '.join(shown)}{others}: {reason}")
    return lines


def _qualified_name(agent: Object) -> str:
    return f"{agent['metadata'].get('namespace', '')}/{agent['metadata']['name']}"


def condition(agent: Object, kind: str) -> Mapping[str, Any]:
    """Return a condition of an agent; empty if it has none of this type."""
    conditions = (agent.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def _row(agent: Object, now: datetime, with_namespace: bool) -> tuple[str, ...]:
    metadata, status = agent["metadata"], agent.get("status") or {}
    ready, activity = condition(agent, "Ready"), status.get("activity") or {}
    active = str(activity.get("lastActive") or "")
    cells = (
        str(metadata["name"]),
        str(status.get("phase") or "-"),
        str(ready.get("status", "Unknown")),
        str(status.get("reason") or ready.get("reason", "-")),
        visible(parse_agent(agent).spec.model.name or "-"),
        f"{activity['spentUSD']} USD" if "spentUSD" in activity else "-",
        age(active, now) if active else "-",
        age(str(metadata.get("creationTimestamp") or ""), now),
    )
    return (str(metadata.get("namespace", "")), *cells) if with_namespace else cells
