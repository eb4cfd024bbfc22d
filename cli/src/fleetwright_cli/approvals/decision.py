"""A decision as a patch, and the reasons why a user cannot decide an Approval. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_api.spec.approval import parse_approval
from fleetwright_cli.approvals.table import Object, decided_at, name_of, phase_of
from fleetwright_cli.cluster.tables import visible


@dataclass(frozen=True)
class Decision:
    decision: str
    by: str
    reason: str | None = None
    arguments: Mapping[str, Any] | None = None

    @property
    def patch(self) -> list[dict[str, Any]]:
        """A JSON Patch (RFC 6902). Members of the request are never part of it.

        A merge patch (RFC 7396) would remove the members of the arguments that are null, at every depth.
        """
        fields = {"decision": self.decision, "decidedBy": self.by, "reason": self.reason, "arguments": self.arguments}
        return [
            {"op": "add", "path": f"/spec/{key}", "value": value} for key, value in fields.items() if value is not None
        ]


def obstacle(approval: Object, decision: Decision) -> str:
    """Return why the user cannot decide, with the remedy; empty if no reason is known.

    The API server enforces these rules. This function only explains them before a request is sent.
    """
    spec, name = parse_approval(approval).spec, name_of(approval)
    if spec.decision is not None:
        return f"{name} is decided already: {first_decision(approval)}. A decision cannot be changed."
    if phase_of(approval) != "Pending":
        return (
            f"{name} is {phase_of(approval)}: the agent no longer waits for a decision."
            " `fleetwright approvals` lists what waits."
        )
    if decision.by in spec.request.forbidden_deciders:
        return (
            f"{decision.by} may not decide about {name}: forbiddenDeciders names this user, as an agent of the request"
            " or as the person who started the task. Another person has to decide."
        )
    if decision.arguments is not None and spec.request.arguments is None:
        return f"the arguments of {name} are too long or contain secrets, and cannot be edited. Omit --arguments."
    return ""


def first_decision(approval: Object) -> str:
    """Return a text with the decision, the person who decided, the time and the reason."""
    spec, when = parse_approval(approval).spec, decided_at(approval)
    reason = f" ({visible(spec.reason)})" if spec.reason else ""
    return f"{spec.decision} by {visible(spec.decided_by or 'an unknown user')}{f' at {when}' if when else ''}{reason}"


def is_the_same(approval: Object, decision: Decision) -> bool:
    """Return whether exactly this decision was made before."""
    spec = parse_approval(approval).spec
    made = Decision(spec.decision or "", spec.decided_by or "", spec.reason, spec.arguments)
    return made == decision


def delivery(approval: Object, *, generation: int) -> tuple[bool, str]:
    """Return whether the agent has answered the decision, and its answer for the user.

    Args: `generation` is the generation of the Approval with this decision. The status of an earlier generation may
        still have the refusal of an earlier decision.
    """
    status = approval.get("status") or {}
    is_current = status.get("observedGeneration", -1) >= generation
    conditions = (status.get("conditions") or ()) if is_current else ()
    found = next((each for each in conditions if each["type"] == "Delivered"), None)
    if found is None:
        return False, "the operator has not delivered the decision yet"
    return found["reason"] != "Delivering", visible(found["message"])


def read_arguments(text: str, place: str) -> dict[str, Any]:
    """Return edited arguments from JSON or YAML.

    Raises:
        ValueError: The text is not one object of JSON values. The message has the remedy.
    """
    try:
        value = read_json(text)
    except ValueError:
        try:
            value = yaml.safe_load(text)
            json.dumps(value, allow_nan=False)
        except (yaml.YAMLError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{place}: not JSON or YAML with JSON values: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{place}: the arguments must be one object, such as {{order: 7}}; write all of them")
    return value
