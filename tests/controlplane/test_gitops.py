"""The real kubectl builds, applies and compares, as GitOps tools do, while the operator runs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.kubeconfig import write as write_kubeconfig
from e2e.cluster.progress import SILENT

FLEET = Path(__file__).parents[2] / "examples/gitops/kustomize/production"
Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def kubectl(control_plane, tmp_path) -> Kubectl:
    program = binaries.ensure(["kubectl"], SILENT)["kubectl"]
    file = tmp_path / "admin.kubeconfig"
    write_kubeconfig(file, name="admin", server=control_plane.server, ca=control_plane.ca, token=control_plane.token)

    def run(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(file), "KUBECACHEDIR": str(tmp_path / "cache")}
        return subprocess.run(
            [program, *words], input=given, env=environment, capture_output=True, text=True, check=False
        )

    return run


@pytest.fixture
def fleet(kubectl, space) -> str:
    """Return the sample as kustomize builds it, in this test's namespace."""
    built = kubectl("kustomize", str(FLEET))
    assert built.returncode == 0, built.stderr
    documents = list(yaml.safe_load_all(built.stdout))
    for document in documents:
        assert document["metadata"]["namespace"] == "shop"
        document["metadata"]["namespace"] = space.name
    return yaml.safe_dump_all(documents)


@pytest.mark.parametrize("way", [("--server-side",), ()], ids=["by server-side apply", "by client-side apply"])
def test_kubectl_diff_is_empty_after_apply_and_reconcile(kubectl, fleet, space, kubelet, operator, way):
    """Nothing differs after an apply, nor after the operator's work."""
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "openai"}, "stringData": {"api-key": "k"}})
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders"}, "stringData": {"bearer": "b"}})
    applied = kubectl("apply", *way, "-f", "-", given=fleet)
    assert applied.returncode == 0, applied.stderr
    kubelet.run("support")
    space.wait("Agent", "support", "Ready", "True")
    difference = kubectl("diff", *way, "-f", "-", given=fleet)
    assert (difference.returncode, difference.stdout) == (0, "")
    assert kubectl("diff", *way, "-f", "-", given=fleet.replace("gpt-4.1", "gpt-4o")).returncode == 1

    space.eventually(space.alone, "what former tests left is gone", seconds=170)
    written = operator.settled()
    before = space.get("Agent", "support")["metadata"]["generation"]
    assert kubectl("apply", *way, "-f", "-", given=fleet).returncode == 0
    assert operator.settled() == written, "an apply without changes causes no write"
    assert space.get("Agent", "support")["metadata"]["generation"] == before


def test_kustomize_renames_references_to_generated_config_maps(kubectl, fleet):
    documents = {(body["kind"], body["metadata"]["name"]): body for body in yaml.safe_load_all(fleet)}
    config_maps = {name for kind, name in documents if kind == "ConfigMap"}
    named = {
        documents["Agent", "support"]["spec"]["instructionsFrom"]["configMapKeyRef"]["name"],
        documents["Skill", "refund-policy"]["spec"]["source"]["configMap"]["name"],
    }
    assert named == config_maps
    assert named.isdisjoint({"support-instructions", "refund-policy-files"}), "the names contain a hash"


@pytest.mark.parametrize("kind", ["Agent", "Skill", "McpServer"])
def test_new_object_status_has_observed_generation_minus_one(admin, space, kubectl, fleet, kind):
    """The API server sets the default status before an operator can write one."""
    (body,) = (
        body for body in yaml.safe_load_all(fleet) if body["kind"] == kind and body["metadata"]["name"] != "warehouse"
    )
    assert admin.apply(body, dry=True)["status"] == {"observedGeneration": -1}
