"""Authorizes calls through the gateway: with the token of this pod, and the delegation of the task if there is one."""

from collections.abc import Callable, Mapping

from fleetwright_a2a.authentication import DELEGATION, TASK, encode_task_id
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.storage.tasks.task_log import TaskDelegations
from fleetwright_agent.tools.peers.delegations import usable_delegation
from fleetwright_agent.tools.port import ToolError


class GatewayCalls:
    def __init__(self, layout: Layout, delegations: TaskDelegations, *, now: Callable[[], float]) -> None:
        """
        Args:
            layout: The paths of the mounted files.
            delegations: The delegations of the tasks of this agent.
            now: Returns seconds since the epoch.
        """
        self._layout = layout
        self._delegations = delegations
        self._now = now

    async def headers(self, owner: str, task_id: str) -> Mapping[str, str]:
        """Return the headers that authorize a call in a task.

        Raises:
            ToolError: There is no token, or the delegation of the task cannot be used.
        """
        try:
            authorization = {"Authorization": f"Bearer {read_gateway_token(self._layout)}"}
        except OSError:
            raise ToolError("this agent holds no credential for the gateway at the moment; try again later") from None
        delegation = await usable_delegation(self._delegations, owner, task_id, now=self._now())
        if delegation is None:
            return authorization
        return {**authorization, DELEGATION: delegation.token, TASK: encode_task_id(task_id)}


def read_gateway_token(layout: Layout) -> str:
    """Return the token of this pod for the gateway. The kubelet rotates it, so it is read before each call.

    Raises:
        OSError: There is no token.
    """
    return layout.gateway_token_file.read_text().strip()
