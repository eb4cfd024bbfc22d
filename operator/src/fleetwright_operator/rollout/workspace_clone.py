"""The state of a workspace's clone, as the Agent's status stores it. Pure.

A source is cloned once. A failure is stored too, and the clone is repeated after a pause, unless the content of a fixed
commit was refused.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api.spec.workspace import WorkspaceGitSpec
from fleetwright_operator.rollout.probe_result import UNUSABLE, ProbeFailure, ProbeReport

_LONGEST: Final = 1024
_COMMIT: Final = re.compile("[0-9a-f]{40}")
"""A branch may have such a name, but hosting services refuse it."""


def is_cloned(status: Mapping[str, Any], git: WorkspaceGitSpec | None) -> bool:
    """Return whether nothing has to be cloned. A source that was cloned once is never cloned again."""
    return git is None or "source" in status.get("workspace", {})


def failure_of(status: Mapping[str, Any], input_hash: str) -> Mapping[str, Any] | None:
    """Return the stored failure of this attempt; None if there is none."""
    clone = status.get("workspace", {}).get("clone", {})
    failure: Mapping[str, Any] | None = clone.get("failure") if clone.get("inputHash") == input_hash else None
    return failure


def is_final(failure: Mapping[str, Any], git: WorkspaceGitSpec) -> bool:
    """Return whether another clone would fail too, because the content of a fixed commit was refused."""
    return failure["reason"] == UNUSABLE and _COMMIT.fullmatch(git.ref or "") is not None


def status_patch(git: WorkspaceGitSpec, input_hash: str, result: ProbeReport | ProbeFailure) -> dict[str, Any]:
    """Return the part of `status.workspace` that a result changes."""
    if isinstance(result, ProbeFailure):
        failure = {"reason": result.reason, "message": result.message[:_LONGEST]}
        return {"clone": {"inputHash": input_hash, "failure": failure}}
    return {"source": {"url": git.url, "commit": str(result.document.get("commit", ""))[:64]}}
