"""Authenticated callers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fleetwright_api.call_authorization import Identity

POD_NAME: Final = "authentication.kubernetes.io/pod-name"
POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_SERVICE_ACCOUNT: Final = "system:serviceaccount"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A Kubernetes user, as a TokenReview describes it."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def service_account(self) -> Identity | None:
        """Return (namespace, name) of a ServiceAccount, or None for another user."""
        parts = self.username.split(":")
        is_account = len(parts) == 4 and f"{parts[0]}:{parts[1]}" == _SERVICE_ACCOUNT
        return (parts[2], parts[3]) if is_account else None

    @property
    def pod(self) -> tuple[str, str] | None:
        """Return (name, uid) of the pod to which the token is bound, or None if it is bound to none."""
        found = [self.extra.get(key, ()) for key in (POD_NAME, POD_UID)]
        return (found[0][0], found[1][0]) if all(len(values) == 1 for values in found) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPrincipal:
    namespace: str
    name: str
    uid: str
    """The uid of the Agent object."""

    @property
    def identity(self) -> Identity:
        return self.namespace, self.name

    @property
    def subject(self) -> str:
        return f"agent:{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonPrincipal:
    """A caller that is no agent: a person, a pipeline, or another program with a Kubernetes identity."""

    user: User

    @property
    def uid(self) -> str:
        return ""

    @property
    def subject(self) -> str:
        return f"user:{self.user.username}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPrincipal:
    """A client of one agent, with a token that the operator minted for this client and this agent."""

    sha256: str
    """The digest of the token."""
    agents: Mapping[Identity, str]
    """The agents that list the client, each with its name for the client."""

    @property
    def uid(self) -> str:
        return ""

    @property
    def subject(self) -> str:
        # Other namespaces can list the same digest under any name, so the digest identifies the client.
        return f"client:{self.sha256[:16]}"


Principal = AgentPrincipal | PersonPrincipal | ClientPrincipal
