"""Lets the volume claims of an agent grow, and fits the agent to the claims that cannot."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import BlockedChildError, ForbiddenError, InvalidRequestError
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.pod.memory_volume import memory_request
from fleetwright_operator.build.volume_claim import (
    AgentClaim,
    ClaimRequest,
    claim_difference,
    claim_manifest,
    compare_claim,
    fit_agent,
)
from fleetwright_operator.build.workspace.volume import files_request
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.observe.index_keys import Key

_RETRY_SECONDS: Final = 300
"""A refused growth is tried again after this time. No event reports that a class or a quota allows it."""
_REMEDY: Final = "Set the former size, or let the StorageClass or the quota allow it"
_UNBOUND: Final = "the claim is not bound yet, and grows as soon as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedStorage:
    agent: AgentView
    """The agent with the sizes that its claims have."""
    difference: Violation | None = None
    """How the claims differ from the spec."""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    uid: str
    version: str
    """The resource version of the claim. Another one may accept the size."""
    size: str
    message: str
    due: int


class AgentStorage:
    def __init__(self, cluster: Cluster, now: Callable[[], int]) -> None:
        """Args: `now` returns the time in seconds."""
        self._cluster = cluster
        self._now = now
        self._refusals: dict[Key, dict[str, _Refusal]] = {}
        """By agent and claim."""

    async def fit_agent(self, observed: ObservedAgent) -> FittedStorage:
        """Let claims grow, and return the agent as its claims allow it. A refused growth stops nothing else."""
        wanted = (
            (memory_request(observed.agent), observed.memory_claim),
            (files_request(observed.agent), observed.workspace.claim if observed.workspace else None),
        )
        claims = [await self._expand(observed, request, live) for request, live in wanted if request is not None]
        return FittedStorage(
            agent=fit_agent(observed.agent, claims),
            difference=claim_difference(claims),
            retry_after=self._retry_after(observed.entry.id),
        )

    def forget(self, key: Key) -> None:
        self._refusals.pop(key, None)

    async def _expand(self, observed: ObservedAgent, request: ClaimRequest, live: CachedObject | None) -> AgentClaim:
        claim = compare_claim(request, live)
        if claim.live is None or not claim.needs_growth:
            self._refusals.get(observed.entry.id, {}).pop(request.name, None)
            return claim
        if claim.live.projection["phase"] != "Bound":
            return replace(claim, refusal=_UNBOUND)
        known = self._refusals.get(observed.entry.id, {}).get(request.name)
        is_same = known is not None and (known.uid, known.version, known.size) == (
            claim.live.uid,
            claim.live.resource_version,
            request.size,
        )
        if known is not None and is_same and known.due > self._now():
            return replace(claim, refusal=known.message)
        try:
            if wanted := self._cluster.outdated(claim_manifest(owner_of(observed.agent), claim)):
                await self._cluster.apply(wanted)
        except BlockedChildError:
            return claim  # The step that writes all children reports it.
        except (ForbiddenError, InvalidRequestError) as refused:
            known_refusal = _Refusal(
                claim.live.uid,
                claim.live.resource_version,
                request.size,
                f"{refused.message}. {_REMEDY}",
                self._now() + _RETRY_SECONDS,
            )
            self._refusals.setdefault(observed.entry.id, {})[request.name] = known_refusal
            return replace(claim, refusal=known_refusal.message)
        return claim

    def _retry_after(self, key: Key) -> int | None:
        due = [refusal.due for refusal in self._refusals.get(key, {}).values()]
        return max(0, min(due) - self._now()) if due else None
