"""An in-memory cluster with agents, and an API server that answers reviews."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from fleetwright_api import names
from fleetwright_gateway.access.access_reviewer import ACCESS_REVIEWS
from fleetwright_gateway.cluster.resources import SCHEME
from fleetwright_gateway.identity.token_reviewer import TOKEN_REVIEWS
from fleetwright_kube.memory_api import MemoryApi
from fleetwright_kube.port import Object, Resource

NOW = 1_772_366_400.0
"""2026-03-01T12:00:00Z"""
ISSUER = "https://kubernetes.default.svc"
AUDIENCE = "fleetwright-gateway"
INSIDE = "http://fleetwright-gateway.system"
OUTSIDE = "https://agents.example.com"


def token_text(name: str, *, audience: str = AUDIENCE, expires: float = NOW + 3600, issuer: Any = ISSUER) -> str:
    """Return a text with the shape of a Kubernetes token. Its signature is the name, and no test verifies it."""
    claims = {"iss": issuer, "aud": [audience], "exp": expires, "sub": name}
    parts = [json.dumps({"alg": "RS256"}), json.dumps(claims), name]
    return ".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)


class FleetApi(MemoryApi):
    """An API server with token and access reviews."""

    def __init__(self) -> None:
        super().__init__(SCHEME, namespace="team")
        self.tokens: dict[str, Object] = {}
        """The status of the TokenReview of each known token."""
        self.grants: set[tuple[str, str, str]] = set()
        """(user, namespace, name) of each permission to create `agents/invoke`; an empty name means every agent."""
        self.reviews: list[Object] = []
        self.access_reviews: list[Object] = []
        self.failing = False

    async def create(self, resource: Resource, body: Object) -> Object:
        if resource is TOKEN_REVIEWS:
            self.reviews.append(body["spec"])
            if self.failing:
                raise TimeoutError
            return {**body, "status": self.tokens.get(body["spec"]["token"], {"authenticated": False})}
        if resource is ACCESS_REVIEWS:
            spec = body["spec"]
            self.access_reviews.append(spec)
            if self.failing:
                raise TimeoutError
            asked = spec["resourceAttributes"]
            right = (asked["group"], asked["resource"], asked["subresource"], asked["verb"])
            known = (spec["user"], asked["namespace"], asked.get("name", "")) in self.grants
            allowed = known and right == (names.GROUP, "agents", "invoke", "create")
            return {**body, "status": {"allowed": allowed}}
        return await super().create(resource, body)

    # Objects of the cluster.

    def add_token(
        self, name: str, username: str, *, extra: Mapping[str, str] | None = None, audience: str = AUDIENCE
    ) -> str:
        token = token_text(name, audience=audience)
        extras = {key: [value] for key, value in (extra or {}).items()}
        user = {"username": username, "uid": f"uid-of-{username}", "groups": ["system:authenticated"], "extra": extras}
        self.tokens[token] = {"authenticated": True, "audiences": [audience], "user": user}
        return token

    def add_person(self, name: str) -> str:
        return self.add_token(name, name)

    def add_pod_token(self, pod: str, account: str, *, namespace: str = "team", audience: str = AUDIENCE) -> str:
        """Return the token of a pod, bound to the pod as the kubelet requests it."""
        uid = self.find("Pod", pod, namespace=namespace)["metadata"]["uid"]
        extra = {"authentication.kubernetes.io/pod-name": pod, "authentication.kubernetes.io/pod-uid": uid}
        return self.add_token(
            f"{namespace}-{pod}", f"system:serviceaccount:{namespace}:{account}", extra=extra, audience=audience
        )

    def add_agent(
        self, name: str, *, namespace: str = "team", spec: Mapping[str, Any] | None = None, status: Object | None = None
    ) -> Object:
        body = {"kind": names.AGENT, "metadata": {"namespace": namespace, "name": name}, "spec": dict(spec or {})}
        return self.put({**body, "status": status or {}})

    def add_card(
        self,
        name: str,
        card: Mapping[str, Any],
        *,
        namespace: str = "team",
        extended: Mapping[str, str] | None = None,
    ) -> None:
        """Write the cards of an agent. Args: `extended` are its extended cards for the gateway, by key."""
        agent = self.find(names.AGENT, name, namespace=namespace)
        path = f"/agents/{namespace}/{name}/a2a"
        self.put(
            {
                "kind": "ConfigMap",
                "metadata": self._child(names.agent_card(name), namespace, names.AGENT, agent),
                "data": {
                    names.CARD_KEY: json.dumps(card),
                    names.GATEWAY_CARD_KEY: json.dumps({**card, "url": f"{OUTSIDE}{path}"}),
                    names.GATEWAY_INSIDE_CARD_KEY: json.dumps({**card, "url": f"{INSIDE}{path}"}),
                    **(extended or {}),
                },
            }
        )

    def add_deployment(self, name: str, *, namespace: str = "team") -> Object:
        """Add the Deployment and the ReplicaSet of an agent, and return the ReplicaSet."""
        agent = self.find(names.AGENT, name, namespace=namespace)
        deployment = self.put({"kind": "Deployment", "metadata": self._child(name, namespace, names.AGENT, agent)})
        return self.put(
            {"kind": "ReplicaSet", "metadata": self._child(f"{name}-1", namespace, "Deployment", deployment)}
        )

    def add_pod(
        self,
        name: str,
        *,
        namespace: str = "team",
        owner: Object | None = None,
        account: str = "default",
        ip: str = "127.0.0.1",
        ready: bool = True,
        host_network: bool = False,
    ) -> Object:
        metadata = {"namespace": namespace, "name": name, "labels": {names.MANAGED_BY: names.FIELD_MANAGER}}
        if owner is not None:
            metadata = self._child(name, namespace, owner["kind"], owner)
        return self.put(
            {
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"serviceAccountName": account, "hostNetwork": host_network},
                "status": {
                    "phase": "Running",
                    "podIP": ip,
                    "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                },
            }
        )

    def add_running_agent(
        self, name: str, *, namespace: str = "team", ip: str = "127.0.0.1", spec: Mapping[str, Any] | None = None
    ) -> str:
        """Add an agent with its pod, and return the token of this pod."""
        self.add_agent(name, namespace=namespace, spec=spec)
        replica_set = self.add_deployment(name, namespace=namespace)
        self.add_pod(f"{name}-1-a", namespace=namespace, owner=replica_set, account=name, ip=ip)
        return self.add_pod_token(f"{name}-1-a", name, namespace=namespace)

    def uid(self, name: str, *, namespace: str = "team") -> str:
        return str(self.find(names.AGENT, name, namespace=namespace)["metadata"]["uid"])

    @staticmethod
    def _child(name: str, namespace: str, kind: str, owner: Object) -> Object:
        reference = {
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        return {
            "namespace": namespace,
            "name": name,
            "labels": {names.MANAGED_BY: names.FIELD_MANAGER},
            "ownerReferences": [reference],
        }
