"""O16, O20: the idle operator, and the operator of the previous commit."""

import asyncio
import io
import json
import os
import re
import subprocess
import tarfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from e2e.control_plane.changes import announced, changes
from e2e.control_plane.installation import install_crds
from e2e.control_plane.normalised_state import bare_name
from tests.support.waiting import await_until

ROOT = Path(__file__).parents[2]


@pytest.mark.exhaustive
async def test_o20_idle_operator_and_restart_write_nothing(stand):
    """O20: a dozen resyncs and a restart cause no write and no read of a single object."""
    space = await stand.space()
    operator = await stand.operator(space, FLEETWRIGHT_RESYNC_SECONDS="2")
    await stand.fleet(space)
    await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready")
    await stand.quiet(space, seconds=3)
    before, gets = stand.versions(space), operator.proxy.requests["GET"]
    written = operator.plan.total_writes(space)
    passes, began = await operator.passes(), time.monotonic()
    await asyncio.sleep(26)
    assert await operator.passes() > passes, "it did resync"
    assert await operator.process.stop() == 0
    await operator.process.started()
    await asyncio.sleep(10)
    assert operator.plan.total_writes(space) == written
    # kopf discovers the kinds four times at its start. The operator reads the API server's address at every resync.
    assert operator.proxy.requests["GET"] - gets <= 4 + 16 * max(1.0, (time.monotonic() - began) / 45)
    assert stand.versions(space) == before


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the previous commit; a shallow clone has none."""
    done = subprocess.run(["git", "archive", "HEAD~1"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this clone holds no earlier commit: git fetch --deepen=1 brings one")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous"


def _sources(checkout: Path) -> str:
    """Return the search path of a checkout's operator and libraries, which go before the installed ones."""
    return os.pathsep.join(map(str, (checkout / "operator" / "src", *sorted(checkout.glob("libs/*/src")))))


async def test_o16_operator_and_crd_upgrade_and_downgrade_lose_nothing(stand, previous):
    """O16: run the previous commit, then this one while objects are edited, then the previous one again."""
    space = await stand.space()
    await install_crds(stand.client, previous / "crds")
    try:
        older = await stand.operator(space, name="older", PYTHONPATH=_sources(previous))
        await stand.fleet(space)
        await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready with the operator before")
        await stand.quiet(space)
        specs, before = _specs(stand, space), _children(stand, space)

        editing = asyncio.create_task(_edits(stand, space))
        await install_crds(stand.client)
        assert await older.process.stop() == 0
        newer = await stand.operator(space, name="newer")
        await editing
    finally:
        await install_crds(stand.client)
    await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready with this operator")
    await stand.quiet(space)
    assert _specs(stand, space) == specs, "no spec loses a field"
    after = _children(stand, space)
    changed = changes(_unhashed(before), _unhashed(after))
    assert changed <= _announced(), "the changelog lists the changes of an upgrade"
    assert changed or after == before, "hashes change only with their content"

    assert await newer.process.stop() == 0
    writes = older.plan.total_writes(space)
    await older.process.started()
    await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready with the operator before, again")
    await stand.quiet(space)
    assert _specs(stand, space) == specs
    assert older.plan.total_writes(space) - writes <= 100, "each child is written a few times at most"


async def _edits(stand, space: str) -> None:
    """Edit objects while the CRD changes, and revert all edits in the end."""
    for number in range(10):
        await stand.agent(space, "helper", instructions=f"Help {number}.")
        await asyncio.sleep(0.3)
    await stand.agent(space, "helper")


def _specs(stand, space: str) -> dict:
    own = ("Agent", "Skill", "McpServer")
    return {key: body["spec"] for key, body in stand.cache.objects(space).items() if key[0] in own}


def _children(stand, space: str) -> dict[str, Any]:
    """Return the exact children by kind and name."""
    bodies = stand.in_use(space)
    return {f"{body['kind']}/{bare_name(body['kind'], body['metadata']['name'])}": _ours(body) for body in bodies}


def _ours(body: dict) -> dict:
    """Return the object without the fields that the API server and controllers write or count."""
    metadata = {key: body["metadata"][key] for key in ("name", "labels", "ownerReferences") if key in body["metadata"]}
    annotations = body["metadata"].get("annotations", {})
    metadata["annotations"] = {key: value for key, value in annotations.items() if "fleetwright.dev/" in key}
    return {key: value for key, value in body.items() if key not in {"metadata", "status"}} | {"metadata": metadata}


def _unhashed(children: dict[str, Any]) -> dict[str, Any]:
    masked: dict[str, Any] = json.loads(re.sub(r"\b[0-9a-f]{10,64}\b", "•", json.dumps(children)))
    return masked


def _announced() -> set[str]:
    return announced((ROOT / "CHANGELOG.md").read_text())


async def test_repeated_writes_of_one_object_are_named(stand):
    """The teardown of each test looks for writes that were executed very often."""
    space = await stand.space()
    operator = await stand.operator(space)
    name = "apply agents/poet/status"

    def is_written_after(before: int) -> bool:
        return bool(operator.proxy.writes[space, name] > before)

    for number in range(4):
        before = operator.proxy.writes[space, name]
        await stand.agent(space, instructions=f"Write {number} poems.")
        await await_until(partial(is_written_after, before), f"the status of edit {number} is written")
    wanted = f"{name} was written {operator.proxy.writes[space, name]} times in {space}, and at most 3 were expected"
    assert wanted in operator.proxy.find_repeated_writes(3)
    assert operator.proxy.find_repeated_writes(100) == []
