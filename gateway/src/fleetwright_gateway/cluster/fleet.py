"""The agents of the cluster and their pods, as the cache knows them.

Labels and owner references are writable by users of a namespace. Therefore a pod belongs to an agent only if the whole
chain of controllers holds, with matching uids: pod, ReplicaSet, Deployment, Agent. The pod must also run as the agent's
ServiceAccount, no other Agent may use this ServiceAccount, and no second pod may claim to be the agent.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity, NamespaceLabels
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.resources import (
    CARD,
    CLIENTS,
    DEPLOYMENT,
    MODIFIED,
    NAMESPACE,
    POD,
    REPLICA_SET,
    SCHEME,
    VIEW,
    account_of,
    controlled_by,
    index_keys,
    with_account,
    with_client,
)
from fleetwright_kube.cache import Cache, Change
from fleetwright_kube.cached_object import CachedObject

Listener = Callable[[Change], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """An agent's pod, whose chain of owners was checked."""

    name: str
    uid: str
    ip: str
    ready: bool
    ports: Mapping[str, int] = field(default_factory=dict)
    """The named ports of the agent's container: `a2a` and `ops`."""

    def url(self, port: str, path: str, *, default: int) -> str:
        """Return the address of a path at a named port, or at the default port if the pod names no such port."""
        host = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"http://{host}:{self.ports.get(port, default)}{path}"


class Fleet:
    def __init__(self) -> None:
        self.cache = Cache(SCHEME, index_keys=index_keys)
        self._agents: dict[Identity, AgentView] = {}
        self._namespaces: Counter[str] = Counter()
        self._labels: dict[str, Mapping[str, str]] = {}
        self._sorted: list[AgentView] | None = None
        self._listeners: list[Listener] = []
        # Results of `running_pod` and `agent_of_pod`, which most requests need. They depend only on the cluster cache,
        # so each of its changes invalidates them.
        self._running_pods: dict[tuple[str, str], Pod | None] = {}
        self._agents_of_pods: dict[tuple[str, str, str], AgentView] = {}

    def observe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for each change. Return a function that unsubscribes the listener."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_change(self, change: Change) -> None:
        self._running_pods.clear()
        self._agents_of_pods.clear()
        entry = change.entry
        if entry.kind == names.AGENT:
            self._sorted = None
            if change.after is None:
                self._agents.pop((entry.namespace, entry.name), None)
            else:
                self._agents[entry.namespace, entry.name] = change.after.projection[VIEW]
            self._namespaces[entry.namespace] += (change.after is not None) - (change.before is not None)
            if not self._namespaces[entry.namespace]:
                del self._namespaces[entry.namespace]
        elif entry.kind == NAMESPACE:
            if change.after is None:
                self._labels.pop(entry.name, None)
            else:
                self._labels[entry.name] = change.after.labels
        for listener in list(self._listeners):
            listener(change)

    @property
    def agents(self) -> Mapping[Identity, AgentView]:
        return self._agents

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces that have agents."""
        return self._namespaces.keys()

    @property
    def sorted_agents(self) -> Sequence[AgentView]:
        """All agents, sorted by namespace and name. The sorted list is cached until an agent changes."""
        if self._sorted is None:
            self._sorted = [self._agents[each] for each in sorted(self._agents)]
        return self._sorted

    @property
    def namespace_labels(self) -> NamespaceLabels:
        return self._labels

    def card_of(self, agent: AgentView) -> Mapping[str, object] | None:
        """Return the card that the operator wrote for the agent."""
        card: Mapping[str, object] | None = self._cards(agent).get("card")
        return card

    def gateway_card_of(self, agent: AgentView, *, inside: bool) -> str | None:
        """Return the text of the signed card with the gateway's address. `inside` chooses the address."""
        return self._card_text(agent, names.GATEWAY_INSIDE_CARD_KEY if inside else "", names.GATEWAY_CARD_KEY)

    def extended_card_of(self, agent: AgentView, *, inside: bool) -> str | None:
        """Return the text of the signed extended card with the gateway's address. `inside` chooses the address."""
        inner = names.GATEWAY_INSIDE_EXTENDED_CARD_KEY if inside else ""
        return self._card_text(agent, inner, names.GATEWAY_EXTENDED_CARD_KEY)

    def card_modified(self, agent: AgentView) -> int | None:
        """Return when the operator last wrote the cards of an agent, in seconds since the epoch, if that is known."""
        modified: int | None = self._cards(agent).get(MODIFIED)
        return modified

    def _card_text(self, agent: AgentView, *keys: str) -> str | None:
        """Return the card under the first of the keys that the ConfigMap has."""
        cards = self._cards(agent)
        return next((cards[key] for key in keys if key in cards), None)

    def _cards(self, agent: AgentView) -> Mapping[str, Any]:
        entry = self.cache.get(CARD, agent.namespace, names.agent_card(agent.name))
        if entry is None or entry.controller is None or entry.controller.uid != agent.uid:
            return {}
        return entry.projection

    def clients_with(self, sha256: str, *, now: float) -> Mapping[Identity, str]:
        """Return the agents that list a client with this digest, each with its name for the client.

        Users of a namespace can write lists, so a list counts only for the agent that controls it.
        """
        found: dict[Identity, str] = {}
        for entry in self.cache.find(*with_client(sha256)):
            agent = None if entry.controller is None else self._agents.get((entry.namespace, entry.controller.name))
            if agent is None or entry.controller is None or entry.controller.uid != agent.uid:
                continue
            for client in entry.projection[CLIENTS]:
                if client.sha256 == sha256 and (client.expires is None or now < client.expires):
                    found[agent.namespace, agent.name] = client.name
        return found

    def running_pod(self, agent: AgentView) -> Pod | None:
        """Return the agent's running pod if the pod has an address, even if the pod is not ready.

        Return None if no such pod exists, if two pods claim to be the agent, or if the identity of the pod cannot be
        verified.
        """
        key = (agent.uid, self.account_of(agent))
        if key not in self._running_pods:
            self._running_pods[key] = self._verified_pod(agent)
        return self._running_pods[key]

    def _verified_pod(self, agent: AgentView) -> Pod | None:
        if self.shares_account(agent):
            return None
        pods = [pod for pod in self._pods(agent) if not pod.deleting and pod.projection["phase"] == "Running"]
        if len(pods) != 1 or not self._may_serve(pods[0], agent):
            return None
        (pod,) = pods
        found = pod.projection
        return Pod(name=pod.name, uid=pod.uid, ip=found["ip"], ready=found["ready"], ports=found["ports"])

    def agent_of_pod(self, namespace: str, name: str, uid: str) -> AgentView | None:
        """Return the agent that runs in a pod, or None if the identity of the pod cannot be verified."""
        key = (namespace, name, uid)
        found = self._agents_of_pods.get(key) or self._verified_agent(*key)
        if found is not None:
            # Other pods are not kept. Their number has no bound, and in a quiet cluster nothing would remove them.
            self._agents_of_pods[key] = found
        return found

    def _verified_agent(self, namespace: str, name: str, uid: str) -> AgentView | None:
        pod = self.cache.get(POD, namespace, name)
        if pod is None or pod.uid != uid or pod.projection["hostNetwork"]:
            return None
        agent = self._agent_above(pod)
        if agent is None:
            return None
        account = account_of(agent.spec, agent.name)
        if pod.projection["account"] != account or len(self.agents_with_account(namespace, account)) != 1:
            return None
        # The Deployment replaces its pod only after the old one has ended, so two pods are never both genuine.
        rivals = [other for other in self._pods(agent) if other.uid != uid and _is_active(other)]
        strangers = [other for other in self._pods_with_account(namespace, account) if self._is_stranger(other, agent)]
        return None if rivals or strangers else agent

    def agents_with_account(self, namespace: str, account: str) -> list[CachedObject]:
        return self.cache.find(*with_account(names.AGENT, namespace, account))

    def shares_account(self, agent: AgentView) -> bool:
        """Return whether another Agent has the same ServiceAccount, so that their pods cannot be told apart."""
        return len(self.agents_with_account(agent.namespace, self.account_of(agent))) > 1

    @staticmethod
    def account_of(agent: AgentView) -> str:
        return account_of(agent.spec, agent.name)

    def is_managed_pod(self, namespace: str, pod: tuple[str, str] | None) -> bool:
        """Return whether Fleetwright manages the pod, which is given by name and uid.

        The cache contains only pods with Fleetwright's labels, so a lookup by name is sufficient.
        """
        entry = None if pod is None else self.cache.get(POD, namespace, pod[0])
        return entry is not None

    def _agent_above(self, pod: CachedObject) -> AgentView | None:
        entry = pod
        for kind, cached in (("ReplicaSet", REPLICA_SET), ("Deployment", DEPLOYMENT), (names.AGENT, names.AGENT)):
            owner = entry.controller
            if owner is None or owner.kind != kind:
                return None
            above = self.cache.get(cached, entry.namespace, owner.name)
            if above is None or above.uid != owner.uid:
                return None
            entry = above
        view: AgentView = entry.projection[VIEW]
        return view

    def _pods(self, agent: AgentView) -> Iterator[CachedObject]:
        """Yield the pods below the agent's Deployment."""
        for deployment in self.cache.find(*controlled_by(DEPLOYMENT, agent.uid)):
            for replica_set in self.cache.find(*controlled_by(REPLICA_SET, deployment.uid)):
                yield from self.cache.find(*controlled_by(POD, replica_set.uid))

    def _pods_with_account(self, namespace: str, account: str) -> list[CachedObject]:
        return self.cache.find(*with_account(POD, namespace, account))

    def _is_stranger(self, pod: CachedObject, agent: AgentView) -> bool:
        """Return whether a pod uses the agent's ServiceAccount but is neither the agent's pod nor its preflight pod."""
        if not _is_active(pod) or (pod.controller is not None and pod.controller.uid == agent.uid):
            return False
        above = self._agent_above(pod)
        return above is None or above.uid != agent.uid

    def _may_serve(self, pod: CachedObject, agent: AgentView) -> bool:
        found = pod.projection
        return bool(
            found["ip"] and not found["hostNetwork"] and found["account"] == account_of(agent.spec, agent.name)
        ) and not any(
            self._is_stranger(other, agent) for other in self._pods_with_account(agent.namespace, found["account"])
        )


def _is_active(pod: CachedObject) -> bool:
    return not pod.deleting and pod.projection["phase"] not in {"Succeeded", "Failed"}
