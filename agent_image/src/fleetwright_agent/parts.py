"""What an agent is made of: each part once, for its door, its life and its upkeep. Refuses: doing anything."""

from dataclasses import dataclass

from fleetwright_agent.callers import Callers
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.logs import LogLevel
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.volume import Volume
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.security.audit import AuditTrail
from fleetwright_agent.server.auth import Identity
from fleetwright_agent.server.card import Card
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.erasure import Erasure, Stores
from fleetwright_agent.server.gate import Gate
from fleetwright_agent.server.intake import Intake
from fleetwright_agent.server.last_compaction import LastCompaction
from fleetwright_agent.server.live import LiveTasks
from fleetwright_agent.server.log import TaskLog
from fleetwright_agent.server.push.pushes import Pushes
from fleetwright_agent.server.reachability import Reachability
from fleetwright_agent.server.runs import Runs
from fleetwright_agent.server.turns import Turns
from fleetwright_agent.server.watched import Watched
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.turn.books import Books


@dataclass(frozen=True, slots=True)
class Parts:
    """What the application is made of."""

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
