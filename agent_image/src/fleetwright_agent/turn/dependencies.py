"""The dependencies that a process passes to its turns. The code that opened a dependency closes it."""

from dataclasses import dataclass

from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.storage.facts import FactStore
from fleetwright_agent.storage.learned_skills import LearnedSkillStore
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.cost.accounting import CostAccounting


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDependencies:
    config: AgentConfig
    layout: Layout
    metrics: Metrics
    storage: Storage
    knowledge: FactStore
    skills: LearnedSkillStore
    offers: ToolCache
    plugins: Plugins
    trail: AuditTrail
    books: CostAccounting
    tracing: Tracing
