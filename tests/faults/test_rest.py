"""O16, O20: nothing to do, and the operator of the commit before."""

import asyncio
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from e2e.faults import flows
from e2e.plane.essence import Essence, Reader
from e2e.plane.installation import install_crds

ROOT = Path(__file__).parents[2]


async def _fleet(stand, space: str) -> None:
    await stand.client.apply(flows.key(space, "one"))
    await stand.client.apply(flows.files("prose", space, "Write well."))
    await stand.client.apply(flows.skill("haiku", space, "Three lines."))
    await stand.client.apply(flows.skill_of_files("prose", space))
    await stand.client.apply(flows.server("tools", space))
    await stand.agent(space, "helper")
    await stand.client.apply(flows.agent("poet", space, **flows.USES))


def _ready(stand, space: str) -> bool:
    fleet = ("Agent", "poet"), ("Agent", "helper"), ("Skill", "haiku"), ("Skill", "prose"), ("McpServer", "tools")
    return all(stand.condition(kind, space, name, "Ready").get("status") == "True" for kind, name in fleet)


async def test_o20_at_rest_and_over_a_restart_no_version_moves(stand):
    """O20: two minutes with a dozen resyncs, and a restart; not one write, not one object that is read singly."""
    space = await stand.space()
    operator = await stand.operator(space, FLEETWRIGHT_RESYNC_SECONDS="10")
    await _fleet(stand, space)
    await stand.until(space, lambda: _ready(stand, space), "the fleet is ready")
    await stand.quiet(space, seconds=3)
    before, gets = stand.versions(space), operator.proxy.requests["GET"]
    written = operator.plan.total_writes(space)
    passes = await operator.passes()
    await asyncio.sleep(120)
    assert await operator.passes() > passes, "it did look"
    assert await operator.process.stop() == 0
    await operator.process.started()
    await asyncio.sleep(10)
    assert operator.plan.total_writes(space) == written
    # kopf asks four times at its start which kinds there are; and where the API server is, is asked at every resync.
    assert operator.proxy.requests["GET"] - gets <= 4 + 16
    assert stand.versions(space) == before


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the commit before; a shallow clone has none."""
    done = subprocess.run(
        ["git", "archive", "HEAD~1", "operator/src", "crds"], cwd=ROOT, capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this clone holds no earlier commit: git fetch --deepen=1 brings one")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous"


async def test_o16_the_operator_and_the_crds_go_forward_and_back_without_loss(stand, previous):
    """O16: the commit before, then this one with objects edited meanwhile, then the operator before it again."""
    space = await stand.space()
    await install_crds(stand.client, previous / "crds")
    try:
        older = await stand.operator(space, name="older", PYTHONPATH=str(previous / "operator" / "src"))
        await _fleet(stand, space)
        await stand.until(space, lambda: _ready(stand, space), "the fleet is ready with the operator before")
        await stand.quiet(space)
        specs, before = _specs(stand, space), _children(stand, space)

        editing = asyncio.create_task(_edits(stand, space))
        await install_crds(stand.client)
        assert await older.process.stop() == 0
        newer = await stand.operator(space, name="newer")
        await editing
    finally:
        await install_crds(stand.client)
    await stand.until(space, lambda: _ready(stand, space), "the fleet is ready with this operator")
    await stand.quiet(space)
    assert _specs(stand, space) == specs, "no spec loses anything"
    changed = {kind for kind, essence in _children(stand, space).items() if essence != before.get(kind)}
    assert changed <= _announced(), "what an upgrade changes stands in the changelog"

    assert await newer.process.stop() == 0
    writes = older.plan.total_writes(space)
    await older.process.started()
    await stand.until(space, lambda: _ready(stand, space), "the fleet is ready with the operator before, again")
    await stand.quiet(space)
    assert _specs(stand, space) == specs
    assert older.plan.total_writes(space) - writes <= 100, "each child at most a few times"


async def _edits(stand, space: str) -> None:
    """Load while the CRD changes: edits that are taken back in the end."""
    for number in range(10):
        await stand.agent(space, "helper", instructions=f"Help {number}.")
        await asyncio.sleep(0.3)
    await stand.agent(space, "helper")


def _specs(stand, space: str) -> dict:
    own = ("Agent", "Skill", "McpServer")
    return {key: body["spec"] for key, body in stand.mirror.objects(space).items() if key[0] in own}


def _children(stand, space: str) -> dict[str, Essence]:
    """By kind, those that agents run on; what is kept of the past changes with every edit."""
    bodies = list(stand.mirror.objects(space).values())
    mounted = json.dumps([body["spec"] for body in bodies if body["kind"] == "Deployment"])
    bodies = [body for body in bodies if body["kind"] != "ConfigMap" or body["metadata"]["name"] in mounted]
    kinds = {body["kind"] for body in bodies} - {"Agent", "Skill", "McpServer", "Pod"}
    reader = Reader(generations=())
    return {kind: reader.read([body for body in bodies if body["kind"] == kind], namespace=space) for kind in kinds}


def _announced() -> set[str]:
    """The kinds of children that the next release changes, as it says itself."""
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## [Unreleased]")[2].partition("\n## [")[0]
    told = re.search(r"Children that this upgrade changes: ([A-Za-z, ]+)\.", unreleased)
    return set(told[1].split(", ")) if told else set()
