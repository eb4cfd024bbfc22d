"""O16: a user upgrades a release with helm, from a chart whose CRDs lack a field."""

import io
import os
import shutil
import subprocess
import tarfile
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.progress import SILENT
from e2e.control_plane.client import Refusal
from e2e.control_plane.installation import logged_in
from e2e.control_plane.process import OperatorProcess
from e2e.faults import flows

ROOT = Path(__file__).parents[2]
NEWER = "toolSearch"
"""A field of Agents that is removed from the earlier CRDs."""


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The chart of the previous commit, or of this one in a clone without it.

    The CRD of Agents lacks a field of the spec, and one of the status that the operator always writes.
    """
    folder = tmp_path / "earlier"
    done = subprocess.run(["git", "archive", "HEAD~1", "charts", "crds"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        shutil.copytree(ROOT / "charts", folder / "charts")
    else:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
    crd = folder / "charts" / "fleetwright" / "files" / "crds" / "agent.yaml"
    body = yaml.safe_load(crd.read_text())
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    del schema["spec"]["properties"][NEWER]
    schema["status"]["properties"].pop("installation", None)
    crd.write_text(yaml.safe_dump(body))
    return folder / "charts" / "fleetwright"


@pytest.fixture
def own_plane(tmp_path: Path):
    """A control plane without CRDs. Helm has to create them."""
    with ControlPlane(tmp_path / "plane") as plane:
        yield plane


@pytest.fixture
def helm(own_plane: ControlPlane, tmp_path: Path):
    program = binaries.ensure(["helm"], SILENT)["helm"]
    homes = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}
    where = (f"--kubeconfig={own_plane.kubeconfig}", f"--namespace={SYSTEM}")

    def run(*words: str | Path) -> None:
        done = subprocess.run(
            [program, *words, *where], env={**os.environ, **homes}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    return run


def child_versions(stand, space: str) -> dict[tuple[str, str], str]:
    return {key: version for key, version in stand.versions(space).items() if key[0] not in {"Agent", "Skill"}}


async def test_o16_helm_upgrade_adds_fields_and_changes_no_child(stand_on, own_plane, helm, earlier, tmp_path):
    """O16: stored objects and running pods stay, and the new field is known.

    After an uninstall, CRDs and agents remain.
    """
    helm("upgrade", "--install", "fleetwright", earlier, "--create-namespace", "--set=rbac.clusterWideSecrets=true")
    async with AsyncExitStack() as stack:
        stand = await stand_on(own_plane, stack)
        space = await stand.space()
        installation = await logged_in(stand.client, SYSTEM)
        operator = OperatorProcess(tmp_path / "operator", installation, server=own_plane.server, ca=own_plane.ca)
        stack.callback(operator.kill_if_alive)
        await operator.started()
        await stand.client.apply(flows.skill("haiku", space, "Three lines."))
        wanted = {"skills": [{"name": "haiku"}], NEWER: {"above": 5}}
        with pytest.raises(Refusal, match=NEWER):
            await stand.agent(space, **wanted)
        await stand.agent(space, skills=wanted["skills"])
        await stand.wait_until_ready(space, "poet")
        await stand.quiet(space)
        before = child_versions(stand, space)
        assert "installation" not in stand.cache.find("Agent", space, "poet")["status"]

        helm("upgrade", "fleetwright", ROOT / "charts" / "fleetwright", "--set=rbac.clusterWideSecrets=true")
        assert await operator.stop() == 0
        await operator.started()
        await stand.quiet(space)
        assert child_versions(stand, space) == before
        await stand.until(
            space,
            lambda: "installation" in stand.cache.find("Agent", space, "poet")["status"],
            "the new field of the status is written",
        )
        await stand.agent(space, **wanted)
        await stand.until(
            space,
            lambda: NEWER in stand.cache.find("Agent", space, "poet")["spec"],
            "the field is kept",
        )
        await stand.wait_until_programmed(space, "poet")

        assert await operator.stop() == 0
        helm("uninstall", "fleetwright")
        assert await stand.client.find("Agent", space, "poet") is not None
        assert operator.complaints() == []
