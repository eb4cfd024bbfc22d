"""A record of the objects that make up an agent. `app.py` creates each of them once."""

from dataclasses import dataclass

from fleetwright_a2a.authentication import Identity
from fleetwright_a2a.card import Card
from fleetwright_agent.config.callers import Callers
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.routes import Admin
from fleetwright_agent.server.approvals.decision_acceptor import DecisionAcceptor
from fleetwright_agent.server.approvals.open_approvals import OpenApprovals
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.ops.event_loop_watchdog import EventLoopWatchdog
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.ops.reachability import Reachability
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.ops.task_outcomes import TaskOutcomes
from fleetwright_agent.server.prompts.prompt_scheduler import PromptScheduler
from fleetwright_agent.server.push.service import PushService
from fleetwright_agent.server.retention import Retention
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.interrupt_expiry import InterruptExpiry
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor
from fleetwright_agent.server.tasks.request_handler import TaskRequestHandler
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.telemetry.counter_file import CounterFile
from fleetwright_agent.telemetry.logs import LogLevel
from fleetwright_agent.turn.dependencies import TurnDependencies


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    turn: TurnDependencies
    """The objects that a turn uses. They do not depend on the server."""
    turn_loader: TurnLoader
    last_compaction: LastCompaction

    task_log: TaskLog
    activity: TaskActivity
    outcomes: TaskOutcomes
    active_tasks: ActiveTasks
    task_runner: TaskRunner
    message_acceptor: MessageAcceptor
    request_handler: TaskRequestHandler
    push_service: PushService | None
    prompt_scheduler: PromptScheduler

    callers: FileWatcher[Callers]
    identity: Identity
    card: FileWatcher[Card]
    agent_uid: FileWatcher[str]
    """The uid of the Agent, from the file with the keys of the gateway. An agent without a gateway has no such file."""
    admin: Admin
    open_approvals: OpenApprovals
    decision_acceptor: DecisionAcceptor
    erasure: Erasure

    interrupt_expiry: InterruptExpiry
    retention: Retention
    curator: Curator
    reachability: Reachability
    watchdog: EventLoopWatchdog
    log_level: LogLevel
    counters: CounterFile
    memory_lock: MemoryLock

    retry_seconds: float
    keepalive_seconds: float
    has_custom_executor: bool
