"""Learned skills: the tasks that teach them, their owners, and tolerance of a store that fails."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fleetwright_agent.config.memory import LearnedSkillMemory
from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.security.caller_roles import EVERY_ACTION, ROLES, Role
from fleetwright_agent.storage.sqlite.learned_skills import SqliteLearnedSkillStore
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.sub_agents.learning import SkillLearner
from fleetwright_agent.turn.sub_agents.listener import FinishedTask


@pytest.fixture
async def skills(tmp_path: Path):
    opened = SqliteLearnedSkillStore(tmp_path / "skills", now=lambda: 0.0)
    yield opened
    await opened.aclose()


def learning(skills: SqliteLearnedSkillStore, **policy: object) -> SkillLearner:
    chosen = LearnedSkillMemory.model_validate({"enabled": True, **policy})
    return SkillLearner(
        skills,
        chosen,
        access=MemoryAccess(lambda owner: ROLES[Role.MEMORY_READ_ONLY] if owner == "client:reader" else EVERY_ACTION),
        redact=lambda text: text.replace("hunter2", "[REDACTED]"),
        metrics=Metrics(CollectorRegistry()),
    )


def finished(*, owner: str = "client:a", tools: tuple[str, ...] = ("t",), task: str = "Boil eggs", **metadata: object):
    return FinishedTask(TurnRequest(owner, "ctx", "task", "x", metadata=metadata), "cook", task, "Boiled.", tools)


@pytest.mark.parametrize(
    ("task", "policy", "wanted"),
    [
        pytest.param(finished(), {}, ["Boil eggs"], id="what was done with a tool"),
        pytest.param(finished(tools=()), {}, [], id="nothing of what was only talked about"),
        pytest.param(finished(owner="agent:team/peer"), {}, [], id="nothing for an agent, which speaks for many"),
        pytest.param(finished(owner="client:reader"), {}, [], id="nothing for a caller that may not write memory"),
        pytest.param(finished(incognito=True), {}, [], id="nothing of what is to be forgotten"),
        pytest.param(finished(trigger="background"), {}, [], id="nothing of what no person asked for"),
        pytest.param(finished(), {"subAgents": ["cook"]}, ["Boil eggs"], id="from a sub-agent that is named"),
        pytest.param(finished(), {"subAgents": ["clerk"]}, [], id="nothing from one that is not"),
        pytest.param(finished(task="Say hunter2"), {}, ["Say [REDACTED]"], id="without its secrets"),
    ],
)
async def test_skill_learning_learns_from_eligible_tasks_only(skills, task, policy, wanted):
    await learning(skills, **policy).finished(task, lambda _: None)
    assert [skill.draft.description for skill in await skills.skills(task.request.owner)] == wanted


async def test_skill_learning_reports_the_skills_of_its_task_only(skills):
    teacher = learning(skills)
    await teacher.finished(finished(), lambda _: None)
    (told,) = await teacher.learned(finished().request)
    assert (told.skill["name"], told.skill["source_session_id"]) == ("cook-boil-eggs-6f2e9008", "ctx")
    assert await teacher.learned(TurnRequest("client:a", "ctx", "another", "x")) == []
    assert await teacher.learned(TurnRequest("client:b", "ctx", "task", "x")) == []


async def test_skill_learning_failure_is_logged_and_ignored(tmp_path, caplog):
    (tmp_path / "skills").write_text("in the way")
    skills = SqliteLearnedSkillStore(tmp_path / "skills", now=lambda: 0.0)
    await learning(skills).finished(finished(), lambda _: None)
    assert "a skill could not be learned" in caplog.text
    assert await learning(skills).learned(finished().request) == []
    await skills.aclose()
