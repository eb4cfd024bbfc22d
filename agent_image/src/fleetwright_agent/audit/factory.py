"""Creates the audit trail and the redactor of an agent from its configuration and the mounted files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.enforcement import AuditMode
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.telemetry.metrics import Metrics

FOLDER: Final = "audit"


def secret_files(layout: Layout) -> Iterator[Path]:
    """Yield every file with a secret: keys, headers, and the tokens for calls to peers."""
    for path in (layout.configuration / "secrets").rglob("*"):
        # Kubernetes mounts each file a second time below `..data`.
        if path.is_file() and not any(part.startswith("..") for part in path.parts):
            yield path
    for tokens in ("peer.*", "next.*"):
        yield from layout.auth.glob(tokens)


def redactor(layout: Layout) -> Redactor:
    return Redactor(lambda: secret_files(layout))


def audit_trail(config: AgentConfig, layout: Layout, metrics: Metrics, clock: Clock) -> AuditTrail:
    """Return the trail; no file is opened yet."""
    return AuditTrail(
        layout.memory / FOLDER,
        redact=redactor(layout),
        now_ns=clock.now_ns,
        on_failure=metrics.audit_failures.inc,
        most_bytes=config.audit.max_bytes,
        enabled=config.audit.mode is not AuditMode.OFF,
    )
