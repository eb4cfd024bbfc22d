"""The delegation with which an agent calls other agents for the principal of its current task."""

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.config.callers import PERSON, VIA
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.tasks.task_log import TaskDelegations
from fleetwright_agent.tools.port import ToolError


async def usable_delegation(kept: TaskDelegations, owner: str, task_id: str, *, now: float) -> Delegation | None:
    """Return the delegation of a task; None if the agent acts for no principal in this task.

    A task of a person, or of an agent that acts for another principal, always has a delegation. Without one, the agent
    must not call other agents as itself.

    Raises:
        ToolError: The delegation has ended or cannot be read. The call must not become a call of the agent itself.
    """
    try:
        found = await kept.delegation(owner, task_id)
    except TaskLogUnavailable:
        raise ToolError("the task of this request cannot be read at the moment; try again later") from None
    if found is None and (owner.startswith(PERSON) or VIA in owner):
        raise ToolError("this task has no right to ask other agents for its caller; the caller may send it again")
    if found is not None and (not found.token or found.expires_at <= now):
        raise ToolError("this task has run too long to ask other agents for its caller; the caller may send it again")
    return found
