"""The chart, rendered by helm itself: what it installs, with which rights, and which values it refuses."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetwright_operator.settings import settings_from

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "fleetwright"
Render = Callable[..., list[dict[str, Any]]]


def find_helm() -> str | None:
    named = os.environ.get("HELM") or shutil.which("helm")
    if named:
        return named
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fleetwright" / "bin"
    return next((str(path) for path in sorted(cache.glob("helm-*/helm"))), None)


@pytest.fixture(scope="session")
def helm() -> str:
    found = find_helm()
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("helm is not on this machine: set HELM, put it on PATH, or run make up once")
        pytest.skip("helm is not on this machine: set HELM, put it on PATH, or run make up once")
    return found


@pytest.fixture
def run(helm: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    homes = {f"HELM_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "DATA")}

    def helm_run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helm, *words], capture_output=True, text=True, env={**os.environ, **homes}, check=False)

    return helm_run


@pytest.fixture
def render(run, tmp_path: Path) -> Render:
    def rendered(**values: Any) -> list[dict[str, Any]]:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        done = run("template", "fw", str(CHART), "-n", "system", "-f", str(file), "--kube-version", "1.36.0")
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return rendered


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    (deployment,) = of_kind(documents, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def test_the_chart_is_well_formed(run):
    done = run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_crds_are_those_of_the_checkout_and_stay_when_the_release_goes(render):
    found = {crd["metadata"]["name"]: crd for crd in of_kind(render(), "CustomResourceDefinition")}
    sources = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    assert {source["metadata"]["name"]: source["spec"] for source in sources} == {
        name: crd["spec"] for name, crd in found.items()
    }
    assert all(crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for crd in found.values())


def test_the_crds_can_go_with_the_release_or_be_left_to_somebody_else(render):
    going = of_kind(render(crds={"keep": False}), "CustomResourceDefinition")
    assert len(going) == 3
    assert not any("annotations" in crd["metadata"] for crd in going)
    assert of_kind(render(crds={"enabled": False}), "CustomResourceDefinition") == []


def test_a_package_holds_the_crds(run, tmp_path):
    assert run("package", str(CHART), "-d", str(tmp_path)).returncode == 0
    (package,) = tmp_path.glob("*.tgz")
    listed = subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout.split()
    assert {f"fleetwright/files/crds/{name}.yaml" for name in ("agent", "skill", "mcpserver")} <= set(listed)


def test_every_namespace_means_a_cluster_role_and_named_ones_a_role_in_each(render):
    everywhere = render()
    assert len(of_kind(everywhere, "ClusterRole")) == 1
    assert [role["metadata"]["name"] for role in of_kind(everywhere, "Role")] == ["fw-operator-lease"]
    named = render(namespaces=["a", "b"])
    assert of_kind(named, "ClusterRole") == of_kind(named, "ClusterRoleBinding") == []
    assert [role["metadata"]["namespace"] for role in of_kind(named, "Role")].count("system") == 1
    assert {"a", "b"} < {role["metadata"]["namespace"] for role in of_kind(named, "Role")}
    assert environment(named)["FLEETWRIGHT_NAMESPACES"] == "a,b"


def test_the_rights_are_exactly_these(render):
    (role,) = of_kind(render(), "ClusterRole")
    rights = {
        f"{group or 'core'}/{resource}": sorted(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    watch, write = ["get", "list", "watch"], ["create", "delete", "get", "list", "patch", "watch"]
    kinds = ("agents", "skills", "mcpservers")
    assert rights == {
        **{f"fleetwright.dev/{kind}": watch for kind in kinds},
        **{f"fleetwright.dev/{kind}/status": ["patch"] for kind in kinds},
        **{f"fleetwright.dev/{kind}/finalizers": ["update"] for kind in kinds},
        **{f"core/{kind}": write for kind in ("serviceaccounts", "configmaps", "secrets", "services")},
        "core/persistentvolumeclaims": ["create", "get", "list", "patch", "watch"],
        "core/pods": ["get", "list", "patch", "watch"],
        "apps/deployments": write,
        "networking.k8s.io/networkpolicies": write,
    }
    assert not any("*" in rule[part] for rule in role["rules"] for part in ("verbs", "resources", "apiGroups"))


def test_the_operator_itself_is_restricted(render):
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_environment_is_one_the_operator_understands(render, tmp_path):
    documents = render(
        agentImage="agent:2",
        clusterDomain="corp.local",
        monitoring={"namespace": "monitoring", "podLabels": {"app": "prometheus"}},
        catalog={"models": {"mine": {"contextWindow": 5000, "baseURL": "http://llm/v1"}}},
    )
    catalog = tmp_path / "catalog.yaml"
    (config_map,) = of_kind(documents, "ConfigMap")
    catalog.write_text(config_map["data"]["catalog.yaml"])
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": str(catalog)})
    assert (settings.agent_image, settings.cluster_domain) == ("agent:2", "corp.local")
    assert settings.catalog.lookup("mine").context_window == 5000
    assert settings.catalog.lookup("gpt-4o-mini").price
    assert settings.monitoring is not None
    assert settings.monitoring.namespace == "monitoring"
    assert settings.operator is not None
    (deployment,) = of_kind(documents, "Deployment")
    assert settings.operator.labels.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert settings.operator.namespace == "system"
    lease = next(role for role in of_kind(documents, "Role") if role["metadata"]["name"].endswith("-lease"))
    assert lease["rules"][1]["resourceNames"] == [settings.lease_name]


def test_a_changed_catalog_is_a_changed_pod(render):
    def mark(documents: list[dict[str, Any]]) -> str:
        (deployment,) = of_kind(documents, "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["fleetwright.dev/catalog"])

    assert mark(render()) == mark(render())
    assert mark(render()) != mark(render(catalog={"models": {"mine": {"contextWindow": 1}}}))


BAD = [
    pytest.param({"replica": 2}, "replica", id="a misspelt value"),
    pytest.param({"replicas": "two"}, "replicas", id="a number in words"),
    pytest.param({"crds": {"install": True}}, "install", id="an unknown switch"),
    pytest.param({"namespaces": ["Prod"]}, "namespaces", id="a namespace that cannot be"),
    pytest.param({"imagePullPolicy": "Sometimes"}, "imagePullPolicy", id="an unknown policy"),
    pytest.param({"catalog": {"models": {"m": {"contextwindow": 1}}}}, "contextwindow", id="a misspelt model fact"),
    pytest.param(
        {"catalog": {"models": {"m": {"price": {"inputPerMillion": 1, "outputPerMillion": "1"}}}}},
        "inputPerMillion",
        id="money as a number",
    ),
]


@pytest.mark.parametrize(("values", "says"), BAD)
def test_a_value_that_cannot_be_is_refused_by_name(run, tmp_path, values, says):
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps(values))
    done = run("template", "fw", str(CHART), "-f", str(file), "--kube-version", "1.36.0")
    assert done.returncode != 0
    assert says in done.stderr


def test_every_value_is_described_by_the_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
