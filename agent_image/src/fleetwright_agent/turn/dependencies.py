"""The dependencies that a process passes to its turns. The code that opened a dependency closes it."""

from dataclasses import dataclass

from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.facts import Knowledge
from fleetwright_agent.storage.sqlite.learned_skills import LearnedSkills
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.mcp.tool_cache import Offers
from fleetwright_agent.turn.cost.accounting import Books


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplies:
    config: AgentConfig
    layout: Layout
    metrics: Metrics
    conversations: Database
    knowledge: Knowledge
    skills: LearnedSkills
    offers: Offers
    plugins: Plugins
    trail: AuditTrail
    books: Books
    tracing: Tracing
