"""The volume claims of an agent, fitted to the claims that exist. Pure.

A bound claim can grow, and nothing else of it can change. The existing claim takes precedence over the spec. Therefore
a claim that differs blocks no other change, and a setting that cannot take effect can be reverted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.quantity import parse_quantity
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.manifest import Manifest, Owner, manifest

_ACCESS_MODES: Final = ("ReadWriteOnce",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A volume claim as the spec asks for it."""

    field: str
    """The path of the storage in the Agent, such as `spec.memory.storage`."""
    name: str
    size: str
    is_default_size: bool
    storage_class: str | None
    retain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentClaim:
    """A claim that the spec asks for, beside the claim that exists."""

    request: ClaimRequest
    live: CachedObject | None
    """None if the claim does not exist, or is being deleted."""
    refusal: str = ""
    """Why the claim cannot have the requested size now; empty if it can."""

    @property
    def needs_growth(self) -> bool:
        """True if the spec asks for more than the claim has."""
        return self.live is not None and _bytes(self.request.size) > _bytes(self.live.projection["size"])

    @property
    def size(self) -> str:
        """The size that the claim has, or that it gets."""
        if self.live is None or _bytes(self.request.size) == _bytes(self.live.projection["size"]):
            return self.request.size
        is_reachable = self.needs_growth and not self.refusal
        return self.request.size if is_reachable else str(self.live.projection["size"])


def compare_claim(request: ClaimRequest, live: CachedObject | None) -> AgentClaim:
    """Return the request beside the claim of its name. A claim in deletion is replaced."""
    return AgentClaim(request=request, live=None if live is None or live.deleting else live)


def claim_manifest(owner: Owner, claim: AgentClaim) -> Manifest:
    """Return the manifest. The class and the access modes of an existing claim are kept."""
    request, live = claim.request, claim.live
    head = manifest("v1", "PersistentVolumeClaim", name=request.name, owner=owner, owned=not request.retain)
    modes = live.projection["access_modes"] if live is not None else ()
    body: dict[str, Any] = {
        "accessModes": list(modes or _ACCESS_MODES),
        "resources": {"requests": {"storage": claim.size}},
    }
    if (class_name := _class_name(claim)) is not None:
        body["storageClassName"] = class_name
    return {**head, "spec": body}


def fit_agent(agent: AgentView, claims: Iterable[AgentClaim]) -> AgentView:
    """Return the agent with the sizes that its claims have, so that its limits fit the volumes."""
    spec = agent.spec
    for claim in claims:
        if claim.size == claim.request.size:
            continue
        if claim.request.name == names.agent_memory(agent.name):
            storage = replace(spec.memory.storage, size=claim.size)
            stated = spec.memory.max_bytes
            is_too_large = stated is not None and parse_quantity(stated) > _bytes(claim.size)
            spec = replace(
                spec, memory=replace(spec.memory, storage=storage, max_bytes=None if is_too_large else stated)
            )
        elif spec.workspace is not None:
            files = replace(spec.workspace.storage, size=claim.size)
            spec = replace(spec, workspace=replace(spec.workspace, storage=files))
    return agent if spec is agent.spec else replace(agent, spec=spec)


def claim_difference(claims: Iterable[AgentClaim]) -> Violation | None:
    """Return how claims differ from the spec, with the reason of the first difference."""
    found = [each for claim in claims for each in _differences(claim)]
    return Violation(found[0].reason, "; ".join(each.message for each in found)) if found else None


def _differences(claim: AgentClaim) -> list[Violation]:
    request, live = claim.request, claim.live
    if live is None:
        return []
    found, about = [], f"the volume claim {request.name!r}"
    current, size = live.projection["storage_class"], live.projection["size"]
    if request.storage_class is not None and request.storage_class != current and not _accepts_class(live):
        kept, remedy = (f"the class {current!r}", f"Set it to {current!r}") if current else ("no class", "Remove it")
        found.append(
            Violation(
                "ClassDiffers",
                f"{request.field}.storageClassName is {request.storage_class!r}, but {about} has {kept}, and the class "
                f"of a claim cannot change. {remedy}; for another class, delete the Agent and the claim, and create "
                "them again",
            )
        )
    if claim.refusal:
        found.append(
            Violation(
                "NotExpanded",
                f"{request.field}.size is {request.size}, but {about} has {size}: {claim.refusal}. The agent runs with "
                f"{size}",
            )
        )
    elif not claim.needs_growth and not request.is_default_size and claim.size != request.size:
        found.append(
            Violation(
                "SizeDiffers",
                f"{request.field}.size is {request.size}, but {about} has {size}, and a volume cannot shrink. Set the "
                f"size to {size}",
            )
        )
    return found


def _class_name(claim: AgentClaim) -> str | None:
    """Return the class in the manifest.

    The class of an existing claim is repeated only if the spec names a class, or if the operator has set it before.
    Otherwise the claim of each agent would be written a second time with the default class of the cluster.
    """
    wanted, live = claim.request.storage_class, claim.live
    if live is None or (wanted is not None and _accepts_class(live)):
        return wanted
    is_ours = "f:storageClassName" in live.owned.get("f:spec", {})
    current: str | None = live.projection["storage_class"]
    return current if wanted is not None or is_ours else None


def _accepts_class(live: CachedObject) -> bool:
    """Return whether the API server lets a class be added, as it does to a claim that waits for a default class."""
    return live.projection["storage_class"] is None and live.projection["phase"] != "Bound"


def _bytes(quantity: str) -> float:
    return parse_quantity(quantity)
