"""Tests of the curator: its schedule inside the process, its command, and the audit record of each run."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.fork_server import ForkServer

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.verification import verify
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.memory.skill_drafts import draft_skill
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.sqlite.learned_skills import FOLDER, SqliteLearnedSkillStore
from fleetwright_agent.telemetry.metrics import Metrics

LEARNING = {"memory": {"skills": {"enabled": True}}}
DAY = 86_400.0
EGGS, NEAR, SOUP = "Boil eggs for the guests of the house", "Boil eggs for the guests of this house", "Cook the soup"


@dataclass
class Time:
    """A clock that a test advances by hand."""

    at: float = 1_000 * DAY

    def clock(self) -> Clock:
        return Clock(now_ns=lambda: int(self.at * 1e9), monotonic=lambda: self.at)

    def now(self) -> float:
        return self.at


@dataclass
class Trail:
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def __call__(self, event: str, about: Mapping[str, Any]) -> None:
        self.lines.append({"event": event, **about})


async def learn(skills: SqliteLearnedSkillStore, *tasks: str, owner: str = "client:a") -> None:
    for task in tasks:
        await skills.learn(owner, draft_skill("cook", task, ["t"]), Provenance(owner, "c", "t"), most=100)


@dataclass
class Desk:
    """Return a curator with the clock, the audit trail and the counters of a test."""

    skills: SqliteLearnedSkillStore
    time: Time
    trail: Trail
    metrics: Metrics
    curator: Curator

    def counted(self, outcome: str) -> float:
        return self.metrics.registry.get_sample_value("fleetwright_skills_curated_total", {"outcome": outcome}) or 0.0


@pytest.fixture
async def desk(tmp_path, documents):
    time, trail, metrics = Time(), Trail(), Metrics(CollectorRegistry())
    mounted = [{"name": "soup", "description": "Cook the soup of the day", "digest": "d"}]
    config = AgentConfig.model_validate(documents(skills=mounted, **LEARNING))
    skills = SqliteLearnedSkillStore(tmp_path / FOLDER, now=time.now)
    curator = Curator(config, skills, tell=trail, metrics=metrics, clock=time.clock())
    yield Desk(skills, time, trail, metrics, curator)
    await skills.aclose()


async def names(desk: Desk, owner: str = "client:a") -> list[str]:
    return [skill.draft.description for skill in await desk.skills.skills(owner)]


async def test_curator_runs_at_start_and_then_once_a_day(desk):
    await learn(desk.skills, EGGS)
    for hours in (0, 1, 22, 1, 1, 30):
        desk.time.at += hours * 3600
        await desk.curator.look()
    assert [line["event"] for line in desk.trail.lines] == ["skills_curated"] * 3
    assert desk.trail.lines[0] == {
        "event": "skills_curated",
        "by": "schedule",
        "owners": 1,
        "kept": 1,
        "merged": 0,
        "pruned": 0,
    }


async def test_curator_merges_duplicates_and_prunes_faded_skills(desk):
    await learn(desk.skills, EGGS, NEAR)
    await desk.curator.look()
    assert await names(desk) == [EGGS]
    desk.time.at += 208 * DAY
    await desk.curator.look()
    assert await names(desk) == [EGGS]
    desk.time.at += 2 * DAY
    await desk.curator.look()
    assert await names(desk) == []
    assert (desk.counted("merged"), desk.counted("pruned")) == (1, 1)


async def test_curator_keeps_skills_that_are_used(desk):
    await learn(desk.skills, EGGS)
    for _ in range(4):
        desk.time.at += 100 * DAY
        await desk.skills.told("client:a", await desk.skills.recall("client:a", "boil eggs", most=5))
        await desk.curator.look()
    assert await names(desk) == [EGGS]


async def test_curator_adds_uses_of_merged_skills_to_the_kept_skill(desk):
    await learn(desk.skills, EGGS, NEAR)
    await desk.skills.told("client:a", await desk.skills.recall("client:a", "boil eggs", most=5))
    await desk.curator.curate(by="test")
    (left,) = await desk.skills.skills("client:a")
    assert left.uses == 2


async def test_curator_handles_each_owner_separately(desk):
    await learn(desk.skills, EGGS, owner="client:a")
    await learn(desk.skills, NEAR, owner="client:b")
    await desk.curator.curate(by="test")
    assert (await names(desk, "client:a"), await names(desk, "client:b")) == ([EGGS], [NEAR])


async def test_curator_dry_run_changes_nothing_and_is_not_audited(desk):
    await learn(desk.skills, EGGS, NEAR)
    (found,) = await desk.curator.curate(by="test", dry_run=True)
    assert (len(found.plan.merged), len(await names(desk)), desk.trail.lines, desk.counted("merged")) == (1, 2, [], 0)


async def test_curator_prefers_mounted_skill_over_learned_duplicate(desk):
    await learn(desk.skills, "soup", "Boil eggs")
    config_name = "Cook the soup of the day"
    await desk.skills.learn(
        "client:a", draft_skill("soup", config_name, ["t"]), Provenance("client:a", "c", "t"), most=9
    )
    await desk.curator.curate(by="test")
    assert config_name not in await names(desk)
    assert "Boil eggs" in await names(desk)


async def test_curator_continues_after_an_unreadable_owner_file(desk, tmp_path):
    """An unreadable file of one owner does not stop the curation of others, and the next scheduled run retries it."""
    await learn(desk.skills, EGGS, NEAR)
    (tmp_path / FOLDER / f"{'0' * 32}.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(Exception, match="cannot be used"):
        await desk.curator.look()
    assert await names(desk) == [EGGS]
    await desk.curator.look()
    assert len(desk.trail.lines) == 1, "the next scheduled run examines it again"


async def filled(layout: Any) -> None:
    skills = SqliteLearnedSkillStore(layout.memory / FOLDER, now=Clock().now)
    await learn(skills, EGGS, NEAR)
    await skills.aclose()


@pytest.fixture
def curate(fork_server: ForkServer, mounted: Any) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the command `curate` with options on the mounted files."""
    return partial(fork_server.run, "curate", "--root", str(mounted.layout.root))


async def test_curate_command_dry_run_previews_the_run(curate, mounted, documents):
    mounted.write(mounted.layout.config_file, documents(**LEARNING))
    await filled(mounted.layout)
    for options, dry in ((("--dry-run",), True), (("--dry-run",), True), ((), False)):
        done = await asyncio.to_thread(curate, *options)
        assert done.returncode == 0, done.stderr
        owner, sums = map(json.loads, done.stdout.splitlines())
        assert owner["owner"] == "client:a"
        older, newer = (f"cook-boil-eggs-for-the-guests-of-{which}-house" for which in ("the", "this"))
        assert (owner["merged"], owner["kept"]) == ([{"name": older, "into": newer}], [newer])
        assert sums == {"dryRun": dry, "owners": 1, "kept": 1, "merged": 1, "pruned": 0}
    (line,) = (mounted.layout.memory / "audit/audit.jsonl").read_text().splitlines()
    assert (json.loads(line)["event"], json.loads(line)["by"]) == ("skills_curated", "command")


async def test_curate_command_refuses_agent_without_learned_skills(curate):
    done = await asyncio.to_thread(curate)
    assert (done.returncode, "memory.skills.enabled" in done.stderr) == (2, True)


async def test_curate_command_is_refused_while_another_process_uses_the_memory(curate, mounted, documents):
    mounted.write(mounted.layout.config_file, documents(**LEARNING))
    await filled(mounted.layout)
    lock = MemoryLock(mounted.layout.memory, name="cook-7d9f-x2x4q")
    assert lock.take_lock() == ""
    done = await asyncio.to_thread(curate)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "cook-7d9f-x2x4q uses the memory volume; while the agent serves, use `fleetwright skills curate`" in done.stderr
    )
    lock.release_lock()
    done = await asyncio.to_thread(curate)
    assert done.returncode == 0, done.stderr
    verdict = verify(mounted.layout.memory / "audit")
    assert (verdict.lines, verdict.broken) == (1, ())
