"""Which agents a principal may find and call. An agent that it may not call does not exist for it."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from fleetwright_api.call_authorization import Identity
from fleetwright_api.fleet.communication import colleagues, communication_reason, may_communicate
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.access_reviewer import AccessReviewer
from fleetwright_gateway.access.forwarding import is_replaced
from fleetwright_gateway.access.listed_agents import ListedAgents
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.identity.principals import AgentPrincipal, ClientPrincipal, PersonPrincipal, Principal

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Other names exist nowhere, so the API server is not asked about them."""


class Visibility:
    def __init__(self, fleet: Fleet, reviewer: AccessReviewer) -> None:
        self._fleet = fleet
        self._reviewer = reviewer
        self._listed = ListedAgents(fleet)

    async def find(self, principal: Principal, namespace: str, name: str) -> AgentView | None:
        """Return an agent that the principal may call; None if it may not, or if there is no such agent.

        Raises:
            ReviewUnavailable: The API server cannot be asked about the permissions of a person.
        """
        if not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
            return None
        agent = self._fleet.agents.get((namespace, name))
        if isinstance(principal, ClientPrincipal):
            return agent if (namespace, name) in principal.agents else None
        if isinstance(principal, AgentPrincipal):
            return agent if agent is not None and self._is_edge(principal, (namespace, name)) else None
        # The review comes first, so that the time of the answer does not tell whether the agent exists.
        if not await self._reviewer.may_invoke(principal.user, namespace, name):
            return None
        return self._fleet.agents.get((namespace, name))  # The agent may have changed meanwhile.

    async def list(self, principal: Principal, namespace: str = "") -> Sequence[AgentView]:
        """Return the agents that the principal may call, sorted by namespace and name, without replaced agents.

        Permissions of persons that name single agents are not listed.
        """
        agents = self._fleet.agents
        if isinstance(principal, ClientPrincipal):
            own = [agents.get(each) for each in sorted(principal.agents) if namespace in {"", each[0]}]
            return [agent for agent in own if agent is not None and not is_replaced(agent)]
        if isinstance(principal, AgentPrincipal):
            near = colleagues(principal.identity, agents, self._fleet.namespace_labels)
            return [agents[each] for each in near if namespace in {"", each[0]} and not is_replaced(agents[each])]
        return self._listed.in_namespaces(await self.spaces(principal, namespace))

    async def listed(self, principal: Principal, namespace: str, name: str) -> AgentView | None:
        """Return an agent if `list` contains it, without listing the others."""
        agent = self._fleet.agents.get((namespace, name))
        if agent is None or is_replaced(agent):
            return None
        if isinstance(principal, PersonPrincipal):
            if not await self._reviewer.may_invoke_all(principal.user, namespace):
                return None
            agent = self._fleet.agents.get((namespace, name))  # The agent may have changed meanwhile.
            return None if agent is None or is_replaced(agent) else agent
        if isinstance(principal, AgentPrincipal):
            is_other = principal.identity != (namespace, name)
            return agent if is_other and self._is_edge(principal, (namespace, name)) else None
        return agent if (namespace, name) in principal.agents else None

    async def spaces(self, principal: Principal, namespace: str = "") -> Collection[str]:
        """Return the namespaces with agents whose agents a person sees in lists; empty for other principals.

        Args:
            principal: The caller.
            namespace: The only namespace to check; empty for all.
        """
        if not isinstance(principal, PersonPrincipal):
            return ()
        found = self._fleet.namespaces
        checked = found if not namespace else [namespace] if namespace in found else []
        return await self._reviewer.invocable(principal.user, checked)

    async def reason(self, principal: Principal, namespace: str, name: str) -> str | None:
        """Explain why the principal may call the agent; None if it may not, or if another agent has replaced it."""
        # The agent is found first, so that the time of the answer does not tell whether a hidden agent was replaced.
        agent = await self.find(principal, namespace, name)
        if agent is None or is_replaced(agent):
            return None
        if isinstance(principal, AgentPrincipal):
            labels = self._fleet.namespace_labels
            return communication_reason(principal.identity, (namespace, name), self._fleet.agents, labels)
        if isinstance(principal, ClientPrincipal):
            return "is a client of the agent"
        return "may create agents/invoke in the agent's namespace"

    def _is_edge(self, principal: AgentPrincipal, callee: Identity) -> bool:
        return may_communicate(principal.identity, callee, self._fleet.agents, self._fleet.namespace_labels)
