"""The typed view of an Approval: what an agent asks, and a person's decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fleetwright_api import names
from fleetwright_api.spec.custom_object import CustomObject, identity
from fleetwright_api.spec.decoder import decode, shared
from fleetwright_api.spec.fields import one_of
from fleetwright_api.violation import Violation

APPROVED: Final = "Approved"
DENIED: Final = "Denied"
DECISIONS: Final = (APPROVED, DENIED)
_KEYS: Final = frozenset({"request", "decision", "decidedBy", "reason", "arguments"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequestSpec:
    """The tool call that waits for a decision. The operator writes it once."""

    agent: str
    task: str
    context: str
    ask: str
    """The id of the question within its task."""
    tool: str
    title: str
    preview: str
    arguments: Mapping[str, Any] | None = None
    """The arguments of the call; None if they are too long, or if secrets were removed from them."""
    arguments_digest: str
    requested_by: str
    chain: tuple[str, ...] = ()
    """The agents that the request came through, the first caller first, as `agent:<namespace>/<name>`."""
    forbidden_deciders: tuple[str, ...]
    """The usernames that may not decide: the ServiceAccounts of the agent and of all agents of the chain."""
    created_at: str
    expires_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalSpec:
    """The request, and the decision of a person. A decision is made once."""

    request: ApprovalRequestSpec
    decision: str | None = one_of(*DECISIONS, default=None)
    decided_by: str | None = None
    reason: str | None = None
    arguments: Mapping[str, Any] | None = None
    """Arguments that replace those of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView(CustomObject):
    kind: ClassVar[str] = names.APPROVAL
    spec: ApprovalSpec
    unknown: tuple[str, ...] = ()
    """The keys of the spec that this version does not know, sorted. One of them may be a misspelt `arguments`."""

    @property
    def is_closed(self) -> bool:
        """Return whether nothing is left to do, so that the object only waits for its deletion."""
        return "closed" in self.status

    @property
    def is_undelivered(self) -> bool:
        """Return whether there is a decision that the agent has not answered."""
        return self.spec.decision is not None and not self.is_closed


def parse_approval(body: Mapping[str, Any]) -> ApprovalView:
    """Return the view of an Approval. Errors in its spec are listed in `problems`."""
    problems: list[Violation] = []
    spec = decode(ApprovalSpec, body.get("spec"), "spec", problems)
    return ApprovalView(
        **identity(body),
        status=shared(body.get("status") or {}),
        problems=tuple(problems),
        spec=spec,
        unknown=tuple(sorted(body["spec"].keys() - _KEYS)) if isinstance(body.get("spec"), Mapping) else (),
    )
