"""The parts of an agent, each built once and shared by the A2A app, the lifecycle and maintenance. It has no logic."""

from dataclasses import dataclass

from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.clock import Clock
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import Callers
from fleetwright_agent.config.file_watcher import Watched
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.server.admin.erasure import Erasure, Stores
from fleetwright_agent.server.auth import Identity
from fleetwright_agent.server.card import Card
from fleetwright_agent.server.executors.turn_loader import Turns
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.push.service import Pushes
from fleetwright_agent.server.tasks.active_tasks import LiveTasks
from fleetwright_agent.server.tasks.admission import Gate
from fleetwright_agent.server.tasks.message_acceptor import Intake
from fleetwright_agent.server.tasks.task_runner import Runs
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.task_log import TaskLog
from fleetwright_agent.storage.volume import Volume
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.mcp.tool_cache import Offers
from fleetwright_agent.turn.cost.accounting import Books


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the application."""

    config: AgentConfig
    log: TaskLog
    tasks: LiveTasks
    runs: Runs
    pushes: Pushes | None
    intake: Intake
    turns: Turns
    conversations: Database
    stores: Stores
    erasure: Erasure
    volume: Volume
    gate: Gate
    trail: AuditTrail
    tracing: Tracing
    books: Books
    callers: Watched[Callers]
    identity: Identity
    card: Watched[Card]
    extended: Watched[Card]
    compaction: LastCompaction
    reachability: Reachability
    log_level: LogLevel
    offers: Offers
    plugins: Plugins
    clock: Clock
    retry_seconds: float
    keepalive_seconds: float
    may_reply: bool
