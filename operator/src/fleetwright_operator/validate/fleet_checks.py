"""Checks of an agent's place in its team, and of the fields that need the gateway. Pure."""

from collections.abc import Iterator
from typing import Final

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.fleet import NO_REACH
from fleetwright_api.violation import Violation
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.observe.hierarchy import ObservedHierarchy
from fleetwright_operator.settings import Settings

_NO_GATEWAY: Final = "NoGateway"
_REMEDY = "set gateway.enabled of the chart, or remove"


def sleepers_can_be_woken(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    """Check that the memory outlives the pod, and that the installation has a gateway whose messages wake the agent."""
    spec = observed.agent.spec
    if spec.sleep is not None and spec.memory.storage.ephemeral:
        text = "spec.sleep needs memory that outlives the pod: remove spec.memory.storage.ephemeral or spec.sleep"
        yield Violation("SleepNeedsMemory", text)
    if spec.sleep is not None and settings.gateway is None:
        yield Violation(_NO_GATEWAY, f"spec.sleep needs the gateway, which wakes the agent: {_REMEDY} spec.sleep")


def fleet_problem(observed: ObservedAgent, settings: Settings) -> Violation | None:
    """Return the problem that keeps the agent out of its team, or out of the gateway. The agent runs nevertheless."""
    spec, team, successors = observed.agent.spec, observed.team, observed.successors
    if observed.account_sharers and settings.gateway is not None:
        others = ", ".join(observed.account_sharers)
        message = (
            f"spec.serviceAccountName is the ServiceAccount of other Agents too ({others}), so the gateway cannot tell"
            " them apart and serves none of them; give each Agent a ServiceAccount of its own"
        )
        return Violation("ServiceAccountShared", message)
    if team.cycle:
        path = " → ".join([*team.cycle, team.cycle[0]])
        return Violation("ParentCycle", f"spec.fleet.parent forms a cycle: {path}. Remove the parent of one of them")
    if team.missing_parent:
        message = f"spec.fleet.parent {team.missing_parent!r} does not exist in this namespace; create it, or remove it"
        return Violation("ParentNotFound", message)
    if successors.cycle:
        path = " → ".join([*successors.cycle, successors.cycle[0]])
        message = f"spec.fleet.forwardedTo forms a cycle: {path}. Remove the field from one of them"
        return Violation("SuccessorCycle", message)
    if successors.missing:
        missing = f"spec.fleet.forwardedTo {successors.missing!r} does not exist in this namespace"
        message = f"{missing}, so the gateway refuses the callers; create it, or remove spec.fleet.forwardedTo"
        return Violation("SuccessorNotFound", message)
    if spec.fleet.reach != NO_REACH and settings.gateway is None:
        message = f"spec.fleet.reach needs the gateway, which carries the messages: {_REMEDY} spec.fleet.reach"
        return Violation(_NO_GATEWAY, message)
    return None


def suspension_reason(spec: AgentSpec, team: ObservedHierarchy) -> str:
    """Return the reason why the agent is suspended; empty if it is not."""
    if not spec.suspend:
        return ""
    return f"suspended with Agent {team.suspended_with!r}" if team.suspended_with else "spec.suspend is true"
