"""The requests of service accounts that the API server refused, read from its audit log.

Requests of people, nodes and the cluster's own controllers are not logged.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import files

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Refusal:
    account: str
    """The name of the account, such as `system:serviceaccount:fleetwright-system:fleetwright-operator`."""
    request: str
    """The verb and the path of the request."""


def prepare(folder: Path) -> tuple[str, ...]:
    """Write the audit policy. Return the API server's arguments for an audit log in this folder."""
    policy = folder / "audit-policy.json"
    files.write(policy, json.dumps(_POLICY))
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={_log(folder)}",
        "--audit-log-maxsize=200",
        "--audit-log-maxbackup=1",
    )


def refusals(folder: Path) -> list[Refusal]:
    """Return the requests for which RBAC gave the account no permission, oldest first.

    Quotas and admission refuse differently.
    """
    log = _log(folder)
    if not log.exists():
        return []
    # Most lines are not parsed: there are tens of thousands.
    events = [json.loads(line) for line in log.read_text().splitlines() if '"forbid"' in line]
    return [
        Refusal(event["user"]["username"], f"{event['verb']} {event['requestURI']}")
        for event in events
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


def _log(folder: Path) -> Path:
    return folder / "audit.log"
