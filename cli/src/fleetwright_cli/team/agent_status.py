"""Reads the status of an Agent, and changes the spec of a lead, for the commands that expand and collapse a team."""

from collections.abc import Mapping
from typing import Any, Final

import click

from fleetwright_api import names
from fleetwright_cli.cluster.client import ClusterClient
from fleetwright_cli.team.bundle import fields_of
from fleetwright_cli.team.tree import name_of

Agent = Mapping[str, Any]
_AWAKE: Final = ("Running", "Degraded", "Blocked")
_BROKEN: Final = ("Failed", "Blocked")
_STAGES: Final = ("Accepted", "ReferencesResolved")


def condition_of(agent: Agent, kind: str) -> Mapping[str, Any]:
    """Return a condition, or an empty mapping."""
    conditions = (agent.get("status") or {}).get("conditions") or ()
    found: Mapping[str, Any] = next((each for each in conditions if each["type"] == kind), {})
    return found


def lacks_gateway(agent: Agent) -> bool:
    """Return whether the operator reports that the installation has no gateway."""
    incomplete = condition_of(agent, "FleetIncomplete")
    return incomplete.get("status") == "True" and incomplete.get("reason") == "NoGateway"


def phase_of(agent: Agent) -> str:
    return str((agent.get("status") or {}).get("phase") or "")


def has_seen_spec(agent: Agent) -> bool:
    """Return whether the status is that of the newest spec."""
    observed = (agent.get("status") or {}).get("observedGeneration") or 0
    return bool(observed >= (agent["metadata"].get("generation") or 0))


def blocking_condition(agent: Agent) -> Mapping[str, Any]:
    """Return the condition for which the operator applies nothing of the spec; empty if there is none.

    Such an agent is neither suspended nor resumed until its spec is repaired.
    """
    found = (condition_of(agent, kind) for kind in _STAGES) if phase_of(agent) in _BROKEN else ()
    return next((each for each in found if each.get("status") == "False"), {})


def is_awake(agent: Agent) -> bool:
    return phase_of(agent) in _AWAKE


def is_suspended(agent: Agent) -> bool:
    """Return whether the agent is suspended and its pod has ended.

    The operator also writes the phase `Suspended` while the pod finishes its tasks. `Ready` then has another reason.
    """
    return phase_of(agent) == "Suspended" and condition_of(agent, "Ready").get("reason") != "Suspending"


def running_tasks(agent: Agent) -> int | None:
    """Return the number of running tasks, or None if it is unknown.

    The operator refreshes this number at most every ten minutes.

    An agent that sleeps or is suspended has no process, and therefore runs none. While the pod of a suspended agent
    finishes its tasks, the number is that of the status.
    """
    if phase_of(agent) == "Asleep" or is_suspended(agent):
        return 0
    found: int | None = ((agent.get("status") or {}).get("activity") or {}).get("runningTasks")
    return found


def change_lead(cluster: ClusterClient, lead: Agent, changes: Mapping[str, Any], *, dry_run: bool = False) -> None:
    """Change the spec of the lead, unless another client has changed it since it was read.

    Args: `dry_run` lets the API server check the change only.

    Raises:
        click.ClickException: The spec has changed, or the API server refuses the change.
    """
    now = cluster.get(names.AGENT, name_of(lead))
    if fields_of(now) != fields_of(lead) or now["metadata"].get("uid") != lead["metadata"].get("uid"):
        raise click.ClickException(f"Agent {name_of(lead)} was changed meanwhile")
    version = {"resourceVersion": now["metadata"]["resourceVersion"]}
    cluster.merge(names.AGENT, name_of(lead), {"metadata": version, "spec": dict(changes)}, dry_run=dry_run)
