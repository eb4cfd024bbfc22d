"""The `existing` provider, used with the local cluster: it remembers the context, and loads images by the hook."""

from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.cluster import binaries
from e2e.cluster.existing import Existing
from e2e.cluster.identity import Identity, name_of
from e2e.cluster.images import Images
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.paths import CHECKOUT, STATE
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider
from e2e.scenarios import workloads


@pytest.fixture
def load_command(provider: Provider, progress: Progress) -> str:
    if provider.name != "local":
        pytest.skip("only the local cluster's way of loading an image is known here")
    sockets = Identity(name_of(CHECKOUT), int((STATE / "octet").read_text())).sockets
    ctr = f"{binaries.ensure(['containerd'], progress)['ctr']} -a {sockets}/containerd.sock -n k8s.io images"
    # An image of an earlier run would hide that nothing was loaded.
    return f'{ctr} rm "$IMAGE" "$IMAGE_ALIAS"; {ctr} import "$IMAGE_ARCHIVE" && {ctr} tag "$IMAGE" "$IMAGE_ALIAS"'


@pytest.mark.alone
def test_existing_cluster_loads_images_and_keeps_everything_else(
    load_command: str, kubectl: Kubectl, progress: Progress, tmp_path: Path, new_namespace: Callable[[], str]
) -> None:
    """An existing cluster receives images by the hook and keeps everything else."""
    environment = {"KUBECONFIG": str(kubectl.kubeconfig), "IMAGE_LOAD_COMMAND": load_command}
    existing = Existing(progress, environment=environment, state=tmp_path)
    existing.up()
    engine = existing.engine()
    assert engine is not None
    built = Images(engine, progress, local_base=existing.local_base).build(["prometheus"])
    existing.load(built)

    assert existing.kubectl().context == kubectl.run("config", "current-context").strip()
    pod = workloads.pod("version", image=built[0].image.reference, command=["prometheus", "--version"])
    pod["metadata"]["namespace"] = where = new_namespace()
    pod["spec"]["restartPolicy"] = "Never"
    existing.kubectl().apply([pod])
    existing.kubectl().run("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/version", f"--namespace={where}")
    existing.down()
    assert existing.status() == ["no existing cluster is used"]
    assert kubectl.run("get", "nodes", "-o", "name").startswith("node/")


def test_existing_cluster_that_does_not_answer_is_reported(progress: Progress, tmp_path: Path) -> None:
    nobody = tmp_path / "kubeconfig"
    nobody.write_text(
        '{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://127.0.0.1:9"}}],'
        '"users":[{"name":"a","user":{"token":"none"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],'
        '"current-context":"a"}'
    )
    with pytest.raises(Exception, match="refused"):
        Existing(progress, environment={"KUBECONFIG": str(nobody)}, state=tmp_path).up()
