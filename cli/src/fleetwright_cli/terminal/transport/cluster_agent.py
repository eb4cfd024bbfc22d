"""The address of an agent in a cluster, through a spawned `kubectl port-forward`.

A port-forward belongs to one pod and ends with it. So a lost connection starts a new one to a ready pod.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api import names
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, build_agent_key
from fleetwright_cli.terminal.transport.errors import (
    AccessDenied,
    AgentNotFound,
    AgentUnreachable,
    ClusterNotConfigured,
)
from fleetwright_cli.terminal.transport.kubectl import kubectl_json
from fleetwright_cli.terminal.transport.pod_tunnel import PodTunnel

_NOT_FOUND: Final = "(NotFound)"
_REMEDY: Final = "without a cluster, start a fleet with `fleetwright dev`, or give --url and --token-file"


class ClusterEndpoint:
    """An agent of a cluster, reached with the user's kubeconfig."""

    def __init__(
        self,
        agent: str,
        *,
        namespace: str | None,
        context: str | None,
        client: str = "default",
        kubectl: str = "kubectl",
    ) -> None:
        """Args: `client` names the client of the agent whose token is used."""
        self._agent = agent
        self._client = client
        self._kubectl = kubectl
        self._namespace = namespace or ""
        self._context = context or ""
        self._tunnel = PodTunnel(kubectl)

    @property
    def key(self) -> str:
        return build_agent_key(f"cluster:{self._context}/{self._namespace}/{self._agent}", self._client)

    @property
    def title(self) -> str:
        return self._agent

    async def prepare(self) -> None:
        """Read the names of the context and the namespace from the kubeconfig, so that `key` is stable.

        Raises: TransportError.
        """
        chosen = ("--context", self._context) if self._context else ()
        try:
            config = await kubectl_json(self._kubectl, (*chosen, "config", "view", "--minify"))
        except ClusterNotConfigured as error:
            raise ClusterNotConfigured(f"{error}; {_REMEDY}") from None
        self._context = self._context or str(config.get("current-context", ""))
        contexts = config.get("contexts") or [{}]
        self._namespace = self._namespace or contexts[0].get("context", {}).get("namespace") or "default"

    async def open(self) -> AgentTarget:
        if not (self._context and self._namespace):
            await self.prepare()
        secret = names.agent_client(self._agent, self._client)
        try:
            found, pods = await self._objects(secret)
        except AccessDenied as error:
            remedy = ". If you may read the Secret of another client, name the client with --client"
            raise AccessDenied(f"{error}{remedy if 'secret' in str(error) else ''}") from None
        except AgentUnreachable as error:
            if _NOT_FOUND not in str(error):
                raise
            wanted = f"agent {self._agent!r} with a client {self._client!r}"
            where = f"namespace {self._namespace} of context {self._context}"
            raise AgentNotFound(f"{where} has no {wanted}; `kubectl get agents -A` lists all agents") from None
        token = token_of(found)
        pod = ready_pod(pods)
        if pod is None:
            where = f"namespace {self._namespace}"
            raise AgentUnreachable(
                f"agent {self._agent} has no ready pod in {where}; see `kubectl get agents`. If it is asleep, a message"
                " through the gateway wakes it, or any new value of its annotation fleetwright.dev/wake"
            )
        port = await self._tunnel.open(self._place(), pod, names.A2A_PORT)
        return AgentTarget(f"http://127.0.0.1:{port}", token)

    async def _objects(self, secret: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the Secret and the pods of the agent. Raises: TransportError."""
        return await asyncio.gather(
            kubectl_json(self._kubectl, (*self._place(), "get", "secret", secret)),
            kubectl_json(self._kubectl, (*self._place(), "get", "pods", "-l", f"{names.AGENT_LABEL}={self._agent}")),
        )

    async def renew(self) -> None:
        await self.close()

    async def close(self) -> None:
        await self._tunnel.close()

    def _place(self) -> tuple[str, ...]:
        return "--context", self._context, "--namespace", self._namespace


def token_of(secret: Mapping[str, Any]) -> str:
    """Return the token of a client's Secret. Raises: AgentUnreachable."""
    try:
        return base64.b64decode(secret["data"][names.TOKEN_KEY], validate=True).decode().strip()
    except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
        name = (secret.get("metadata") or {}).get("name", "")
        raise AgentUnreachable(f"Secret {name} has no key {names.TOKEN_KEY!r} yet; wait for the operator") from None


def ready_pod(pods: Mapping[str, Any]) -> str | None:
    """Return the name of a ready pod that is not being deleted, or None."""
    for pod in pods.get("items", ()):
        conditions = pod.get("status", {}).get("conditions", ())
        ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
        if ready and "deletionTimestamp" not in pod["metadata"]:
            return str(pod["metadata"]["name"])
    return None
