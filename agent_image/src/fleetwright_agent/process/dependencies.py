"""The parts of an agent, each built once and shared by the A2A app, the lifecycle and maintenance. It has no logic."""

from dataclasses import dataclass

from fleetwright_a2a.authentication import Identity
from fleetwright_a2a.card import Card
from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.callers import Callers
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.server.admin.erasure import ErasableStores, Erasure
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.push.service import PushService
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.task_log import TaskLog
from fleetwright_agent.storage.volume import MemoryVolume
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.cost.accounting import CostAccounting


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The parts of the application."""

    config: AgentConfig
    log: TaskLog
    tasks: ActiveTasks
    runs: TaskRunner
    pushes: PushService | None
    intake: MessageAcceptor
    turns: TurnLoader
    storage: Storage
    stores: ErasableStores
    erasure: Erasure
    volume: MemoryVolume
    gate: Admission
    trail: AuditTrail
    tracing: Tracing
    books: CostAccounting
    callers: FileWatcher[Callers]
    identity: Identity
    card: FileWatcher[Card]
    extended: FileWatcher[Card]
    compaction: LastCompaction
    reachability: Reachability
    log_level: LogLevel
    offers: ToolCache
    plugins: Plugins
    clock: Clock
    retry_seconds: float
    keepalive_seconds: float
    may_reply: bool
