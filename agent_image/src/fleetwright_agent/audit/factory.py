"""The audit trail and the redaction of one agent, from its configuration and what is mounted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.clock import Clock
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.security.redaction import Redactor
from fleetwright_agent.telemetry.metrics import Metrics

FOLDER: Final = "audit"


def secret_files(layout: Layout) -> Iterator[Path]:
    """Every file whose content is a secret: keys, headers, and the tokens that this agent calls its peers with."""
    for path in (layout.configuration / "secrets").rglob("*"):
        # Kubernetes mounts each file twice, the other time below `..data`.
        if path.is_file() and not any(part.startswith("..") for part in path.parts):
            yield path
    for tokens in ("peer.*", "next.*"):
        yield from layout.auth.glob(tokens)


def redactor(layout: Layout) -> Redactor:
    return Redactor(lambda: secret_files(layout))


def audit_trail(config: AgentConfig, layout: Layout, metrics: Metrics, clock: Clock) -> AuditTrail:
    """Nothing is opened yet."""
    return AuditTrail(
        layout.memory / FOLDER,
        redact=redactor(layout),
        now_ns=clock.now_ns,
        on_failure=metrics.audit_failures.inc,
        most_bytes=config.audit.max_bytes,
    )
