"""The JSON of the registry under `/v1`, as the API documentation shows it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class RegistryModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True)


class SkillModel(RegistryModel):
    id: str
    name: str
    description: str
    tags: list[str]


class OutcomeModel(RegistryModel):
    skill: Annotated[str, Field(description="The skill that the callers named; empty for tasks without one.")]
    tasks: Annotated[int, Field(description="The number of the last tasks that ended, at most 200.")]
    succeeded: int
    cost_usd: Annotated[str | None, Field(description="The cost of the tasks with a price; null if none has one.")]
    weight: Annotated[float, Field(description="Share of successes / (1 + US dollars for each success).")]


class AgentModel(RegistryModel):
    namespace: str
    name: str
    url: Annotated[str, Field(description="The address of the agent at the gateway.")]
    description: str
    version: str
    phase: Annotated[str, Field(description="Pending, Running, Degraded, Blocked, Asleep, Suspended or Failed.")]
    skills: list[SkillModel]
    outcomes: Annotated[list[OutcomeModel], Field(description="The outcomes of the agent's last tasks, by skill.")]
    weight: Annotated[float, Field(description="The weight over all skills; 1 for an agent without outcomes.")]


class AgentPage(RegistryModel):
    items: list[AgentModel]
    total: Annotated[int, Field(description="The number of agents that match, among those that the caller may call.")]
    next_page_token: str | None = None


class AgentDetail(AgentModel):
    reason: Annotated[str, Field(description="Why the caller may call the agent; the subject is the caller.")]
    parent: str | None = None


class AccessQuestion(RegistryModel):
    model_config = ConfigDict(extra="forbid")
    namespace: Annotated[str, Field(max_length=63)]
    name: Annotated[str, Field(max_length=253)]


class AccessAnswer(RegistryModel):
    allowed: bool
    reason: str | None = None
