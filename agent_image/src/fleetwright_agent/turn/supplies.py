"""The dependencies that a process passes to its turns. The code that opened a dependency closes it."""

from dataclasses import dataclass

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.layout import Layout
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.knowledge import Knowledge
from fleetwright_agent.memory.learned_skills import LearnedSkills
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.security.audit import AuditTrail
from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.tools.offers import Offers
from fleetwright_agent.turn.books import Books


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
