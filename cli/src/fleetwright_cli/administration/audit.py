"""Verifies the audit trail of an agent in a cluster, with the command that the agent's image contains.

The operator records the end of the trail in the Agent's status, outside of the agent's volume. A trail that lacks this
line was cut off.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.cluster.tables import render, visible
from fleetwright_cli.terminal.transport.cluster_agent import ready_pod
from fleetwright_cli.terminal.transport.errors import AgentUnreachable
from fleetwright_cli.terminal.transport.kubectl import kubectl_json, kubectl_run

_CONTAINER: Final = "agent"
_SECONDS: Final = 300.0
_FIRST_FINDING: Final = 10
"""The lowest exit code that names a finding."""


@dataclass(frozen=True, slots=True)
class AuditVerification:
    """The result of one verification."""

    agent: str
    pod: str
    expected: str
    """The line that the trail must contain, as LINES:HASH; empty if none is recorded."""
    exit_code: int
    """The exit code of the agent's command: 0, or the number of the first finding."""
    result: Mapping[str, Any]

    @property
    def document(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "pod": self.pod,
            "expected": self.expected or None,
            "exitCode": self.exit_code,
            **self.result,
        }

    @property
    def text(self) -> str:
        """Return the counts, and a row for each finding."""
        rows = [
            ("LINES", "ERASED", "TORN", "HEAD", "EXPECTED"),
            (
                *(str(self.result.get(key, "-")) for key in ("lines", "erased", "torn")),
                visible(str(self.result.get("head", "-")))[:12],
                f"line {self.expected.partition(':')[0]}" if self.expected else "not recorded",
            ),
        ]
        broken = self.result.get("broken") or ()
        findings = [(visible(str(each.get("kind"))), visible(str(each.get("message")))) for each in broken]
        if not findings:
            return f"{render(rows)}\n\nThe audit trail is intact."
        return f"{render(rows)}\n\n{render([('FINDING', 'WHERE'), *findings])}"


async def verify_audit_trail(
    agent: str, *, place: Sequence[str], expected: str | None = None, kubectl: str = "kubectl"
) -> AuditVerification:
    """Verify the trail in a ready pod of the agent.

    Args:
        place: The options of kubectl that select the cluster and the namespace.
        expected: The line that the trail must contain; by default that of the Agent's status.

    Raises:
        TransportError: The agent has no ready pod, or its trail cannot be read.
    """
    found = await kubectl_json(kubectl, (*place, "get", f"agents.{names.GROUP}", agent))
    pods = await kubectl_json(kubectl, (*place, "get", "pods", "-l", f"{names.AGENT_LABEL}={agent}"))
    pod = ready_pod(pods)
    if pod is None:
        raise AgentUnreachable(f"agent {agent} has no ready pod; wake or resume it, because its pod reads the trail")
    line = recorded_end(found) if expected is None else expected
    command = ("fleetwright-agent", "audit", "verify", *(("--expect", line) if line else ()))
    ended = await kubectl_run(kubectl, (*place, "exec", pod, "-c", _CONTAINER, "--", *command), seconds=_SECONDS)
    result = _result(ended.output)
    if result is None or (ended.code and ended.code < _FIRST_FINDING):
        reason = f"{ended.reason}; you need the right to create pods/exec"
        raise AgentUnreachable(f"the trail of agent {agent} was not verified: {reason}")
    return AuditVerification(agent, pod, line, ended.code, result)


def recorded_end(agent: Mapping[str, Any]) -> str:
    """Return the end of the trail that the operator has recorded, as LINES:HASH; empty if there is none."""
    recorded = (agent.get("status") or {}).get("auditTrail") or {}
    return f"{recorded['lines']}:{recorded['hash']}" if recorded.get("lines") else ""


def _result(output: bytes) -> Mapping[str, Any] | None:
    try:
        document = read_json(output)
    except ValueError:
        return None
    return document if isinstance(document, dict) and isinstance(document.get("broken"), list) else None
