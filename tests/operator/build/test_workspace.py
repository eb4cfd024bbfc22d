"""The children of a workspace."""

import json
from dataclasses import replace
from ipaddress import ip_network

import pytest

from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.auth_files import Tokens
from fleetwright_operator.build.network.addresses import Destination, ServiceInfo
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS
from fleetwright_operator.build.workspace.children import helpers_of, workspace_children
from fleetwright_operator.build.workspace.clone import clone_manifests, git_source
from fleetwright_operator.build.workspace.egress_hosts import proxy_document
from fleetwright_workspace.proxy.egress_rules import parse_rules

EVERYTHING = {
    "image": "docker.io/library/node:22",
    "imagePullSecrets": [{"name": "registry"}],
    "storage": {"size": "20Gi", "storageClassName": "fast", "retain": False},
    "source": {"git": {"url": "https://git.example.com/shop.git", "ref": "main", "secretRef": {"name": "git"}}},
    "tools": ["read_file", "bash"],
    "approvals": {"edits": "Auto", "shell": "Ask"},
    "shell": {"timeout": "5m", "allow": ["npm test"]},
    "network": {
        "egress": [
            {"to": {"ipBlock": {"cidr": "203.0.113.0/24"}}, "ports": [{"port": 443}], "why": "packages"},
            {"to": {"host": "registry.example.com"}, "ports": [{"port": 443}], "why": "more packages"},
            {"to": {"host": "mirror"}, "ports": [{"port": 4873}]},
        ]
    },
    "web": {"hosts": ["docs.example.com"]},
    "runtimeClassName": "gvisor",
    "resources": {"limits": {"memory": "2Gi", "cpu": 2}},
}


SERVICES = {("shop", "mirror"): ServiceInfo(selector={"app": "mirror"}, ports={4873: "http"})}


def children(view, settings, **options):
    return workspace_children(view, digests=["a" * 64, "b" * 64], **{"runs": True, "settings": settings, **options})


def test_workspace_manifests_with_every_field_match_golden(objects, settings, golden):
    view = objects.agent_view(workspace=EVERYTHING)
    git = git_source(view)
    found = Destination(text="git.example.com:443", peers=({"ipBlock": {"cidr": "0.0.0.0/0"}},), port=443)
    cloning = clone_manifests(
        view, git, input_hash="0123456789", found=found, helpers=helpers_of(view, NO_LIMITS, settings)
    )
    written = children(view, settings, services=SERVICES, proxy_address="10.96.7.8")
    golden("workspace-full", [*written.manifests, *cloning])


def test_clone_with_an_authority_and_a_proxy_matches_golden(objects, settings, golden):
    git = {
        "url": "https://git.example.com/shop.git",
        "caSecretRef": {"name": "company"},
        "proxyURL": "http://squid:3128",
    }
    view = objects.agent_view(workspace={"image": "debian", "source": {"git": git}})
    found = Destination(text="squid:3128", peers=({"podSelector": {"matchLabels": {"app": "squid"}}},), port=3128)
    helpers = helpers_of(view, NO_LIMITS, settings)
    cloning = clone_manifests(view, git_source(view), input_hash="0123456789", found=found, helpers=helpers)
    golden("workspace-clone-elsewhere", cloning)


def test_workspace_manifests_of_a_minimal_spec_match_golden(objects, settings, golden):
    view = objects.agent_view(workspace={"image": "debian", "storage": {"ephemeral": True}})
    golden("workspace-least", children(view, settings, runs=False).manifests)


def test_workspace_with_an_existing_claim_writes_none(objects, settings):
    view = objects.agent_view(workspace={"image": "debian", "storage": {"claim": {"name": "code"}}})
    written = children(view, settings)
    assert [body["kind"] for body in written.prepared] == ["Secret", "NetworkPolicy", "Service"]
    volumes = written.deployment["spec"]["template"]["spec"]["volumes"]
    assert volumes[0] == {"name": "files", "persistentVolumeClaim": {"claimName": "code"}}


def test_agent_without_a_workspace_has_no_workspace_children(objects, settings):
    assert children(objects.agent_view(), settings) is None


def test_workspace_pod_is_selected_by_nothing_of_the_agent(objects, settings):
    """The agent's Service and its policies must not select the workspace, and the workspace's not the agent."""
    view = objects.agent_view(workspace={"image": "debian"})
    pod = children(view, settings).deployment["spec"]["template"]["metadata"]["labels"]
    agent = agent_children(AgentParts(agent=view), settings)
    selectors = [body["spec"]["selector"] for body in agent.manifests if body["kind"] == "Service"]
    selectors += [
        body["spec"]["podSelector"]["matchLabels"] for body in agent.manifests if body["kind"] == "NetworkPolicy"
    ]
    assert len(selectors) == 3
    assert all(not selector.items() <= pod.items() for selector in selectors)
    mine = children(view, settings)
    (policy,) = (body for body in mine.prepared if body["kind"] == "NetworkPolicy")
    assert not policy["spec"]["podSelector"]["matchLabels"].items() <= agent.template["metadata"]["labels"].items()
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod.items()


def test_shell_container_mounts_neither_tokens_nor_undo_state(objects, settings):
    spec = children(objects.agent_view(workspace={"image": "debian"}), settings).deployment["spec"]["template"]["spec"]
    shell = next(container for container in spec["containers"] if container["name"] == "shell")
    assert {(mount["name"], mount.get("subPath")) for mount in shell["volumeMounts"]} == {
        ("files", "files"),
        ("files", "home"),
        ("program", None),
        ("sockets", None),
        ("tmp", None),
    }
    assert spec["shareProcessNamespace"] is False
    assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("workspace", "wanted"),
    [
        ({}, {"url": "http://poet-workspace.shop.svc.cluster.local:7880"}),
        (
            {key: EVERYTHING[key] for key in ("tools", "approvals", "shell", "web")},
            {
                "url": "http://poet-workspace.shop.svc.cluster.local:7880",
                "tools": ["read_file", "bash"],
                "approvals": {"edits": "Auto", "shell": "Ask"},
                "shell": {"timeoutSeconds": 300, "allow": ["npm test"]},
                "webHosts": ["docs.example.com"],
            },
        ),
    ],
    ids=["defaults", "every field"],
)
def test_agent_config_contains_the_workspace(objects, settings, workspace, wanted):
    view = objects.agent_view(workspace={"image": "debian", **workspace})
    assert agent_children(AgentParts(agent=view), settings).rendered.config["workspace"] == wanted


def test_agent_reaches_its_workspace_and_its_web_hosts_only(objects, settings):
    view = objects.agent_view(workspace={"image": "debian", "web": {"hosts": ["docs.example.com"]}})
    rules = {rule.why: rule for rule in agent_children(AgentParts(agent=view), settings).egress_rules}
    labels = {"fleetwright.dev/workspace": "poet", "app.kubernetes.io/component": "workspace"}
    assert rules["spec.workspace"].peers[0]["podSelector"] == {"matchLabels": labels}
    assert rules["spec.workspace"].ports == (("TCP", 7880),)
    assert "docs.example.com" in rules["spec.workspace.web.hosts"].to


def test_workspace_reaches_hosts_through_its_proxy_only(objects, settings):
    egress = [
        {"to": {"host": "registry.example.com"}, "ports": [{"port": 443}, {"port": 80}], "why": "packages"},
        {"to": {"host": "mirror.shop.svc"}, "ports": [{"port": 4873}]},
    ]
    view = objects.agent_view(workspace={"image": "debian", "network": {"egress": egress}})
    written = children(view, settings, services=SERVICES, proxy_address="fd00::7")
    assert [(rule.to, rule.why) for rule in written.egress_rules] == [
        ("registry.example.com, TCP 443, TCP 80, through the egress proxy", "packages"),
        ("mirror.shop.svc, TCP 4873, through the egress proxy", "spec.workspace.network.egress"),
    ]
    policies = {body["metadata"]["name"]: body["spec"] for body in written.prepared if body["kind"] == "NetworkPolicy"}
    (rule,) = policies["poet-workspace"]["egress"]
    proxy = policies["poet-egress"]
    assert rule["to"][0]["podSelector"] == proxy["podSelector"]
    assert proxy["ingress"][0]["from"] == [{"podSelector": policies["poet-workspace"]["podSelector"]}]
    (shell,) = (
        each for each in written.deployment["spec"]["template"]["spec"]["containers"] if each["name"] == "shell"
    )
    variables = {each["name"]: each["value"] for each in shell["env"]}
    assert variables["https_proxy"] == variables["HTTP_PROXY"] == "http://[fd00::7]:7881"


def test_workspace_waits_for_the_address_of_its_proxy(objects, settings):
    egress = [{"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]}]
    view = objects.agent_view(workspace={"image": "debian", "network": {"egress": egress}})
    assert children(view, settings).awaits_proxy
    assert not children(view, settings, proxy_address="10.96.7.8").awaits_proxy
    assert not children(objects.agent_view(workspace={"image": "debian"}), settings).awaits_proxy


def test_proxy_rules_of_the_operator_are_read_by_the_proxy(objects, settings):
    egress = [
        {"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]},
        {"to": {"host": "registry.example.com"}, "ports": [{"port": 80}]},
        {"to": {"host": "mirror"}, "ports": [{"port": 4873}]},
        {"to": {"ipBlock": {"cidr": "10.9.0.0/16", "except": ["10.9.9.0/24"]}}, "ports": [{"port": 443}]},
        {"to": {"podSelector": {"matchLabels": {"app": "else"}}}, "ports": [{"port": 1}]},
    ]
    view = objects.agent_view(workspace={"image": "debian", "network": {"egress": egress}})
    denied = replace(settings, stated_ranges=(ip_network("198.51.100.0/24"),))
    rules = parse_rules(json.dumps(proxy_document(view, SERVICES, denied)))
    assert rules.rule_for("registry.example.com", 80).ports == {80, 443}
    mirror = rules.rule_for("mirror", 4873)
    assert (mirror.lookup, mirror.is_service) == ("mirror.shop.svc.cluster.local.", True)
    assert [str(each.network) for each in rules.ranges] == ["10.9.0.0/16"]
    assert [str(each) for each in rules.denied] == ["198.51.100.0/24"]


@pytest.mark.parametrize(
    "services",
    [
        pytest.param({}, id="no Service"),
        pytest.param({("shop", "mirror"): ServiceInfo(selector={"app": "mirror"}, ports={80: 80})}, id="another port"),
        pytest.param({("shop", "mirror"): ServiceInfo(selector={}, ports={4873: 80})}, id="no selector"),
    ],
)
def test_unresolved_host_is_absent_from_the_proxy_rules(objects, settings, services):
    egress = [
        {"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]},
        {"to": {"host": "mirror"}, "ports": [{"port": 4873}]},
    ]
    view = objects.agent_view(workspace={"image": "debian", "network": {"egress": egress}})
    assert list(parse_rules(json.dumps(proxy_document(view, services, settings))).hosts) == ["registry.example.com"]
    (reason,) = children(view, settings, services=services).unresolved_hosts
    assert reason.startswith("spec.workspace.network.egress[1].to.host names mirror: Service 'mirror' ")


def test_auth_secret_holds_the_token_of_the_workspace(objects, settings):
    view = objects.agent_view(workspace={"image": "debian"})
    parts = replace(AgentParts(agent=view), tokens=Tokens(workspace=("in-use", "next")))
    (auth,) = (body for body in agent_children(parts, settings).mounted if body["metadata"]["name"] == "poet-auth")
    assert auth["data"]["workspace"] == "aW4tdXNl"
