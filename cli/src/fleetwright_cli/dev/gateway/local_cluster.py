"""The in-memory Kubernetes API of a local run. The gateway sees the agents and their processes as Agents and pods.

This API also answers the TokenReviews and SubjectAccessReviews of the gateway. The person who runs the fleet may call
every agent. All methods are called on the event loop of the gateway.
"""

import asyncio
import hmac
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from fleetwright_api import names
from fleetwright_cli.dev.gateway.local_tokens import AUDIENCE, PERSON, agent_uid
from fleetwright_gateway.access.access_reviewer import ACCESS_REVIEWS
from fleetwright_gateway.cluster.resources import CARD, POD, SCHEME
from fleetwright_gateway.identity.token_reviewer import TOKEN_REVIEWS
from fleetwright_kube.errors import ForbiddenError
from fleetwright_kube.memory_api import MemoryApi
from fleetwright_kube.port import Object, Resource

_DEPLOYMENT: Final = "Deployment"
_REPLICA_SET: Final = "ReplicaSet"
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"


class LocalCluster(MemoryApi):
    """One namespace with agents, whose pods are processes of this machine."""

    def __init__(self, *, namespace: str, person_token: str, on_wake: Callable[[str], None]) -> None:
        """Args: `on_wake` is called with the name of an agent that the gateway wants to wake."""
        super().__init__(SCHEME, namespace=namespace, write_cap=sys.maxsize)
        self._space = namespace
        self._person_token = person_token
        self._on_wake = on_wake
        self._agent_tokens: dict[str, str] = {}
        self._events: list[tuple[str, str, Object]] = []
        self._changed_event = asyncio.Event()
        self.listeners.append(self._record)

    def put_agent(
        self, name: str, spec: Mapping[str, Any], *, cards: Mapping[str, str], token: str, phase: str
    ) -> None:
        """Add or update an agent.

        Args: `cards` are its cards by the key of the ConfigMap. `token` is the one with which it calls the gateway.
        """
        metadata = {"namespace": self._space, "name": name, "uid": agent_uid(self._space, name)}
        agent = {"kind": names.AGENT, "metadata": metadata, "spec": dict(spec), "status": {"phase": phase}}
        owner: Object = self.put(agent)
        self.put(self._child(CARD, names.agent_card(name), owner) | {"data": dict(cards)})
        for kind in (_DEPLOYMENT, _REPLICA_SET):
            owner = self.put(self._child(kind, name, owner))
        self._agent_tokens[name] = token

    def put_pod(self, name: str, *, host: str, ports: Mapping[str, int], ready: bool) -> None:
        """Add or update the pod of an agent, which stands for its process."""
        listed = [{"name": port, "containerPort": number} for port, number in ports.items()]
        pod = self._child(POD, name, self.find(_REPLICA_SET, name))
        conditions = [{"type": "Ready", "status": str(ready)}]
        self.put(
            pod
            | {
                "spec": {"serviceAccountName": name, "containers": [{"name": "agent", "ports": listed}]},
                "status": {"phase": "Running", "podIP": host, "conditions": conditions},
            }
        )

    def remove_pod(self, name: str) -> None:
        if self.has(POD, name):
            self.remove(POD, name)

    def remove_agent(self, name: str) -> None:
        """Delete an agent with everything that belongs to it."""
        self._agent_tokens.pop(name, None)
        if self.has(names.AGENT, name):
            self.remove(names.AGENT, name)

    async def create(self, resource: Resource, body: Object) -> Object:
        """Answer a review of a token or of a permission. Raises: ForbiddenError for other objects."""
        if resource == TOKEN_REVIEWS:
            return {**body, "status": self._review(body["spec"]["token"])}
        if resource == ACCESS_REVIEWS:
            return {**body, "status": {"allowed": body["spec"]["user"] == PERSON}}
        raise ForbiddenError(f"a local run creates no {resource.kind}")

    async def merge(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        """Patch an Agent. The gateway patches only the annotation that requests a wake."""
        patched = await super().merge(resource, namespace, name, patch)
        self._on_wake(name)
        return patched

    async def watch(
        self, resource: Resource, *, namespace: str | None, resource_version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        kind = self._kind(resource)
        # `_events` is only appended to, so a position in it never becomes invalid.
        position = 0
        while True:
            while position < len(self._events):
                event, of, body = self._events[position]
                position += 1
                found = body["metadata"]
                is_new = int(found["resourceVersion"]) > int(resource_version)
                if of == kind and is_new and namespace in {None, found.get("namespace")}:
                    yield event, body
            await self._changed_event.wait()

    def _record(self, event: str, kind: str, body: Object) -> None:
        self._events.append((event, kind, body))
        self._changed_event.set()
        self._changed_event = asyncio.Event()

    def _review(self, token: str) -> Object:
        if hmac.compare_digest(token, self._person_token):
            return {"authenticated": True, "audiences": [AUDIENCE], "user": {"username": PERSON}}
        for name, known in self._agent_tokens.items():
            if hmac.compare_digest(token, known) and self.has(POD, name):
                extra = {_POD_NAME: [name], _POD_UID: [self.find(POD, name)["metadata"]["uid"]]}
                user = {"username": f"system:serviceaccount:{self._space}:{name}", "extra": extra}
                return {"authenticated": True, "audiences": [AUDIENCE], "user": user}
        return {"authenticated": False}

    def _child(self, kind: str, name: str, owner: Object) -> Object:
        found = owner["metadata"]
        reference = {"kind": owner["kind"], "name": found["name"], "uid": found["uid"], "controller": True}
        metadata = {
            "namespace": self._space,
            "name": name,
            "labels": {names.MANAGED_BY: names.FIELD_MANAGER},
            "ownerReferences": [reference],
        }
        return {"kind": kind, "metadata": metadata}
