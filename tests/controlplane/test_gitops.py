"""The real kubectl builds, applies and compares, as GitOps tools do, while the operator runs."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.kubeconfig import write as write_kubeconfig
from e2e.cluster.progress import SILENT
from tests.support.controlplane.administrator import LONG_SECONDS, POLICY_KINDS, Refusal
from tests.support.operator.statuses import (
    KINDS,
    NEW_OBJECT,
    OBJECT_WITHOUT_ITS_SECRET,
    healthy_object,
    object_with_failure,
    object_with_status,
    waiting_object,
    with_unobserved_generation,
)
from tests.support.waiting import wait_until

from fleetwright_api.violation import Violation

GITOPS = Path(__file__).parents[2] / "examples/gitops"
FLEET = GITOPS / "kustomize/production"
FLUX = GITOPS / "flux"
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

    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    written = operator.wait_for_settled_writes()
    before = space.get("Agent", "support")["metadata"]["generation"]
    assert kubectl("apply", *way, "-f", "-", given=fleet).returncode == 0
    assert operator.wait_for_settled_writes() == written, "an apply without changes causes no write"
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


INVALID = object_with_status(accepted=[Violation("InvalidSkill", "x")])
FLUX_VERDICTS = [
    pytest.param(KINDS, NEW_OBJECT, "InProgress", id="made a moment ago"),
    pytest.param(KINDS, with_unobserved_generation(INVALID), "InProgress", id="mended a moment ago"),
    pytest.param(KINDS, healthy_object(), "Current", id="ready"),
    pytest.param(KINDS, INVALID, "Failed", id="a wrong spec"),
    pytest.param(KINDS, object_with_failure("Rejected"), "Failed", id="a child that cannot be"),
    pytest.param(KINDS, object_with_failure("Conflict"), "Failed", id="somebody else's child"),
    pytest.param(KINDS, OBJECT_WITHOUT_ITS_SECRET, "InProgress", id="a reference that dangles, and may be on its way"),
    pytest.param(["Agent"], object_with_failure("PreflightFailed"), "Failed", id="a revision that cannot start"),
    pytest.param(["Agent"], waiting_object(False, "Suspended"), "Current", id="suspended"),
    pytest.param(["Agent"], waiting_object(True, "Asleep"), "Current", id="asleep"),
    pytest.param(["Agent"], waiting_object(False, "RollingOut"), "InProgress", id="waking, as at any start of a pod"),
    pytest.param(
        ["Skill"],
        object_with_status(resolved=[Violation("SourcePending", "x")], rolls_out=False),
        "InProgress",
        id="a source that is being looked at",
    ),
    pytest.param(
        ["McpServer"], waiting_object(None, "NotObserved"), "InProgress", id="tools that nobody has looked at"
    ),
    pytest.param(["McpServer"], waiting_object(False, "Unreachable"), "InProgress", id="a server that may come up"),
    pytest.param(
        ["McpServer"], waiting_object(False, "ToolsChanged"), "Failed", id="tools that are not the pinned ones"
    ),
    pytest.param(["McpServer"], waiting_object(False, "TooManyTools"), "Failed", id="more tools than are kept"),
]


@pytest.fixture(scope="module")
def flux_policy(admin):
    """Let the API server evaluate the health expressions for Flux, which are CEL as its policies are.

    The policy refuses a write of the administrator to a status that has its label, and says the verdict.
    """
    documents = yaml.safe_load_all((FLUX / "fleet.yaml").read_text())
    (listed,) = (each["spec"]["healthCheckExprs"] for each in documents if "healthCheckExprs" in each["spec"])
    names = [_apply_flux_policy(admin, expressions) for expressions in listed]
    yield
    for name in names:
        for kind in POLICY_KINDS:
            admin.delete(kind, "", name)


def _apply_flux_policy(admin, expressions) -> str:
    plural = f"{expressions['kind'].lower()}s"
    name = f"flux-{plural}"
    # The objects of a policy are variables. Flux has their fields.
    of_object = {
        key: re.sub(r"(?<![\w.])(status|metadata)\.", r"object.\1.", text) for key, text in expressions.items()
    }
    verdict = (
        f"({of_object['inProgress']}) ? 'InProgress' : ({of_object['failed']}) ? 'Failed'"
        f" : ({of_object['current']}) ? 'Current' : 'InProgress'"
    )
    rule = {"apiGroups": ["fleetwright.dev"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"]}
    selector = {"matchLabels": {"judged-by": "flux"}}
    resources = [{**rule, "resources": [f"{plural}/status"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": resources, "objectSelector": selector},
        "validations": [{"expression": "false", "messageExpression": f"'flux: ' + ({verdict})"}],
    }
    bodies = {
        "ValidatingAdmissionPolicy": spec,
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }
    for kind, content in bodies.items():
        head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        admin.apply({**head, "spec": content})
    return name


@pytest.fixture(scope="module")
def judged_by_flux(admin, flux_policy, chart_of, kubeconfig):
    """Return a function that returns the verdict of Flux about an object of a kind with a status."""
    namespace = "flux-verdicts"
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    specs = {
        "Agent": {"instructions": "Help.", "model": {"name": "m"}},
        "Skill": {"source": {"inline": {"files": {"SKILL.md": "---\nname: one\ndescription: d\n---\n"}}}},
        "McpServer": {"remote": {"url": "https://tools.example.com/mcp"}},
    }

    def judge(kind: str, body) -> str:
        name = f"one-{body['metadata']['generation']}"
        head = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind}
        metadata = {"name": name, "namespace": namespace, "labels": {"judged-by": "flux"}}
        stored = admin.apply({**head, "metadata": metadata, "spec": specs[kind]})
        status = json.loads(json.dumps(body["status"]))
        status["observedGeneration"] += stored["metadata"]["generation"] - body["metadata"]["generation"]

        def find_verdict() -> str:
            try:
                admin.merge(kind, namespace, name, {"status": status}, subresource="/status")
            except Refusal as refusal:
                return refusal.message.partition("flux: ")[2]
            return ""

        return wait_until(find_verdict, f"the policy judges {kind} {name}")

    yield judge
    admin.delete("Namespace", "", namespace)


@pytest.mark.parametrize(("kinds", "body", "wanted"), FLUX_VERDICTS)
def test_flux_status_separates_failures_from_waiting(judged_by_flux, kinds, body, wanted):
    assert {kind: judged_by_flux(kind, body) for kind in kinds} == dict.fromkeys(kinds, wanted)
