"""The parts of an agent that its turns need. The server uses them too. The code that opens a part also closes it."""

from dataclasses import dataclass

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskDelegations
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.cost.accounting import CostAccounting


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDependencies:
    config: AgentConfig
    layout: Layout
    clock: Clock
    metrics: Metrics
    storage: Storage
    delegations: TaskDelegations
    audit_trail: AuditTrail
    cost_accounting: CostAccounting
    tool_cache: ToolCache
    plugins: Plugins
    tracing: Tracing
