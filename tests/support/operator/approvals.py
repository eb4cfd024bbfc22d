"""An open question of an agent, as the agent lists it, and the Approval for it."""

from typing import Any

from fleetwright_kube.port import Object
from fleetwright_kube.timestamps import format_timestamp

DIGEST = "sha256:" + "a" * 64
ASK: dict[str, Any] = {
    "task": "t-1",
    "context": "c-1",
    "ask": "a-1",
    "tool": "orders__refund",
    "title": "Refund order 7",
    "preview": "Refund 20 EUR\nto the customer",
    "arguments": {"order": 7},
    "argumentsDigest": DIGEST,
    "requestedBy": "user:alice via agent:shop/clerk",
    "chain": ["agent:shop/front", "agent:shop/clerk"],
    "createdAt": "1970-01-01T00:10:00.25Z",
    "expiresAt": "1970-01-01T01:00:00Z",
}
AGENT = "system:serviceaccount:shop:clerk"


def approval_body(
    *, status: Object | None = None, digest: str = DIGEST, expires: int | None = 3_600, **decision: Any
) -> Object:
    """Return the Approval `clerk-1` with this status and decision."""
    request = {
        "agent": "clerk",
        "task": "t-1",
        "context": "c-1",
        "ask": "a-1",
        "tool": "orders__refund",
        "title": "Refund",
        "preview": "Refund 20 EUR",
        "arguments": {"order": 7},
        "argumentsDigest": digest,
        "requestedBy": "user:alice",
        "chain": [],
        "forbiddenDeciders": [AGENT],
        "createdAt": format_timestamp(600),
        **({"expiresAt": format_timestamp(expires)} if expires is not None else {}),
    }
    metadata = {"name": "clerk-1", "namespace": "shop", "generation": 1}
    return {"metadata": metadata, "spec": {"request": request, **decision}, "status": status or {}}
