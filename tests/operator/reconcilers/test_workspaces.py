"""Workspaces on the in-memory API: they are written beside the agent, cloned once, and removed."""

import asyncio
import base64
import hashlib
import json
import re
from collections import Counter

import pytest

from fleetwright_kube.errors import api_error
from fleetwright_operator.rollout.slot_limiter import LONGEST_SECONDS, WAITING_SECONDS
from fleetwright_operator.settings import Settings

GIT = {"git": {"url": "https://git.example.com/shop.git", "secretRef": {"name": "git"}}}


def coder(objects, **workspace):
    return objects.agent("coder", workspace={"image": "debian", **workspace})


def names_of(api, kind: str) -> set[str]:
    return {body["metadata"]["name"] for body in api.all(kind)}


def clones(api) -> list[str]:
    label = ("app.kubernetes.io/component", "workspace-clone")
    return [body["metadata"]["name"] for body in api.all("Pod") if label in body["metadata"]["labels"].items()]


async def applied(world, api, *bodies) -> None:
    for body in bodies:
        api.put(body)
    await world.start()
    await world.settle()


async def test_workspace_is_written_and_becomes_ready(world, api, objects):
    await applied(world, api, coder(objects))
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("False", "RollingOut")
    api.roll_out("coder")
    api.roll_out("coder-workspace")
    await world.settle()
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("True", "RolledOut")
    status = api.find("Agent", "coder")["status"]
    assert status["workspace"] == {"claim": "coder-workspace", "egress": []}
    assert status["phase"] == "Running"


async def test_workspace_accepts_the_token_of_its_agent_only(world, api, objects):
    await applied(world, api, coder(objects), objects.agent("other", workspace={"image": "debian"}))
    token = base64.b64decode(api.find("Secret", "coder-auth")["data"]["workspace"])
    accepted = base64.b64decode(api.find("Secret", "coder-workspace")["data"]["tokens"]).decode().split()
    assert accepted == [hashlib.sha256(token).hexdigest()]
    assert (
        api.find("Secret", "other-auth")["data"]["workspace"] != api.find("Secret", "coder-auth")["data"]["workspace"]
    )


async def test_workspace_image_rolls_without_touching_the_agent(world, api, objects):
    await applied(world, api, coder(objects))
    api.roll_out("coder")
    api.roll_out("coder-workspace")
    api.set_status("PersistentVolumeClaim", "coder-workspace", {"phase": "Bound"})
    await world.settle()
    before = api.find("Deployment", "coder")["metadata"]["resourceVersion"]
    api.put(coder(objects, image="node:22", storage={"size": "9Gi"}))
    await world.settle()
    shell = api.find("Deployment", "coder-workspace")["spec"]["template"]["spec"]["containers"][1]
    assert shell["image"] == "node:22"
    claim = api.find("PersistentVolumeClaim", "coder-workspace")
    assert claim["spec"]["resources"]["requests"]["storage"] == "9Gi"
    assert api.find("Deployment", "coder")["metadata"]["resourceVersion"] == before
    assert api.probes("coder") == []


async def test_removed_workspace_leaves_only_its_volume(world, api, objects):
    await applied(world, api, coder(objects))
    api.roll_out("coder")
    await world.settle()
    api.put(objects.agent("coder"))
    await world.settle()
    await world.until(lambda: api.probes("coder") != [])
    api.end_pod(api.probes("coder")[0])
    await world.settle()
    for kind in ("Deployment", "Service", "NetworkPolicy", "Secret"):
        assert "coder-workspace" not in names_of(api, kind)
    assert "coder-workspace" in names_of(api, "PersistentVolumeClaim")
    status = api.find("Agent", "coder")["status"]
    assert "workspace" not in status
    assert "WorkspaceReady" not in world.conditions("Agent", "coder")


HOSTS = {"egress": [{"to": {"host": "registry.example.com"}, "ports": [{"port": 443}], "why": "packages"}]}


async def assign_address(world, api, address: str = "10.96.7.8") -> None:
    """Give the Service of the proxy an address, as an API server does."""
    service = api.find("Service", "coder-egress")
    api.put({**service, "spec": {**service["spec"], "clusterIP": address}})
    await world.settle()


async def test_workspace_with_hosts_gets_a_proxy(world, api, objects):
    await applied(world, api, coder(objects, network=HOSTS))
    assert "coder-workspace" not in names_of(api, "Deployment")
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("Unknown", "NotObserved")
    assert "egress proxy" in message
    await assign_address(world, api)
    shell = api.find("Deployment", "coder-workspace")["spec"]["template"]["spec"]["containers"][1]
    assert {"name": "HTTPS_PROXY", "value": "http://10.96.7.8:7881"} in shell["env"]
    api.roll_out("coder-workspace")
    await world.settle()
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("False", "RollingOut")
    assert message.startswith("the egress proxy: ")
    api.roll_out("coder-egress")
    await world.settle()
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("True", "RolledOut")
    assert api.find("Agent", "coder")["status"]["workspace"]["egress"] == [
        {"to": "registry.example.com, TCP 443, through the egress proxy", "why": "packages"}
    ]


async def test_workspace_without_hosts_loses_its_proxy(world, api, objects):
    await applied(world, api, coder(objects, network=HOSTS))
    await assign_address(world, api)
    for name in ("coder", "coder-workspace", "coder-egress"):
        api.roll_out(name)
    await world.settle()
    api.put(coder(objects))
    await world.settle()
    for kind in ("Deployment", "Service", "NetworkPolicy"):
        assert "coder-egress" not in names_of(api, kind)
    shell = api.find("Deployment", "coder-workspace")["spec"]["template"]["spec"]["containers"][1]
    assert "env" not in shell
    assert "egress" not in api.find("NetworkPolicy", "coder-workspace")["spec"]


async def test_new_address_of_the_proxy_reaches_the_shell(world, api, objects):
    await applied(world, api, coder(objects, network=HOSTS))
    await assign_address(world, api)
    await assign_address(world, api, "10.96.7.9")
    shell = api.find("Deployment", "coder-workspace")["spec"]["template"]["spec"]["containers"][1]
    assert {"name": "http_proxy", "value": "http://10.96.7.9:7881"} in shell["env"]


async def test_suspended_agent_has_no_proxy_pod(world, api, objects):
    body = coder(objects, network=HOSTS)
    await applied(world, api, {**body, "spec": {**body["spec"], "suspend": True}})
    await assign_address(world, api)
    assert api.find("Deployment", "coder-egress")["spec"]["replicas"] == 0
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("False", "Suspended")


@pytest.mark.parametrize(
    ("host", "says"),
    [
        pytest.param("127.1", "ends in a number", id="a disguised address"),
        pytest.param("10.0.0.7", "write to.ipBlock instead", id="an address"),
        pytest.param("localhost", "the agent's own pod", id="the pod itself"),
    ],
)
async def test_unusable_host_of_a_workspace_is_reported(world, api, objects, host, says):
    egress = [{"to": {"host": host}, "ports": [{"port": 443}]}]
    await applied(world, api, coder(objects, network={"egress": egress}))
    status, found, message = world.conditions("Agent", "coder")["Accepted"]
    assert (status, found) == ("False", "InvalidAddress")
    assert "spec.workspace.network.egress[0].to.host" in message
    assert says in message
    assert "coder-egress" not in names_of(api, "Deployment")


def mirror(*ports: int):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "mirror", "namespace": "shop"},
        "spec": {"selector": {"app": "mirror"}, "ports": [{"port": port, "targetPort": 8080} for port in ports]},
    }


async def test_proxy_follows_the_service_that_a_host_names(world, api, objects):
    egress = [{"to": {"host": "mirror"}, "ports": [{"port": 4873}]}]
    await applied(world, api, coder(objects, network={"egress": egress}))
    api.put(mirror(4873))
    await world.settle()
    rules = api.find("NetworkPolicy", "coder-egress")["spec"]["egress"]
    assert rules[-1]["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert rules[-1]["to"][0]["podSelector"] == {"matchLabels": {"app": "mirror"}}


async def test_missing_service_of_a_host_never_blocks_agent(world, api, objects):
    egress = [*HOSTS["egress"], {"to": {"host": "mirror"}, "ports": [{"port": 4873}]}]
    await applied(world, api, coder(objects, network={"egress": egress}))
    await assign_address(world, api)
    for name in ("coder", "coder-workspace", "coder-egress"):
        api.roll_out(name)
    await world.settle()
    conditions = world.conditions("Agent", "coder")
    assert conditions["Ready"][0] == "True"
    status, reason, message = conditions["WorkspaceReady"]
    assert (status, reason) == ("False", "ServiceNotFound")
    assert message.startswith("spec.workspace.network.egress[1].to.host names mirror: Service 'mirror' does not exist")
    api.put(mirror(80))
    await world.settle()
    assert "has no TCP port 4873" in world.conditions("Agent", "coder")["WorkspaceReady"][2]
    api.put(mirror(4873))
    await world.settle()
    api.roll_out("coder-egress")
    await world.settle()
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("True", "RolledOut")


async def test_suspended_agent_has_no_workspace_pod(world, api, objects):
    body = coder(objects)
    await applied(world, api, {**body, "spec": {**body["spec"], "suspend": True}})
    assert api.find("Deployment", "coder-workspace")["spec"]["replicas"] == 0
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("False", "Suspended")


async def test_workspace_pod_that_cannot_start_degrades_the_agent(world, api, objects):
    await applied(world, api, coder(objects))
    api.roll_out("coder")
    generation = api.find("Deployment", "coder-workspace")["metadata"]["generation"]
    quota = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: team"}
    api.set_status("Deployment", "coder-workspace", {"observedGeneration": generation, "conditions": [quota]})
    await world.settle()
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("False", "Quota")
    assert "exceeded quota: team" in message
    assert api.find("Agent", "coder")["status"]["phase"] == "Degraded"


async def test_workspace_source_is_cloned_before_the_pod_starts(world, api, objects):
    await applied(world, api, coder(objects, source=GIT), objects.secret("git", token="eA=="))
    assert "coder-workspace" not in names_of(api, "Deployment")
    assert world.conditions("Agent", "coder")["WorkspaceReady"][:2] == ("False", "Cloning")
    (pod,) = clones(api)
    policies = names_of(api, "NetworkPolicy")
    assert pod in policies
    api.end_pod(pod, says=json.dumps({"commit": "c" * 40}))
    await world.settle()
    assert api.find("Agent", "coder")["status"]["workspace"]["source"] == {
        "url": GIT["git"]["url"],
        "commit": "c" * 40,
    }
    assert "coder-workspace" in names_of(api, "Deployment")
    assert clones(api) == []
    assert pod not in names_of(api, "NetworkPolicy")


async def test_workspace_source_is_never_cloned_twice(world, api, objects, make_world):
    await applied(world, api, coder(objects, source=GIT), objects.secret("git", token="eA=="))
    api.end_pod(clones(api)[0], says=json.dumps({"commit": "c" * 40}))
    await world.settle()
    await world.stop()
    again = make_world(api)
    await again.start()
    await again.settle()
    assert clones(api) == []
    assert api.find("Agent", "coder")["status"]["workspace"]["source"]["commit"] == "c" * 40
    await again.stop()


async def test_failed_clone_is_reported_and_retried(world, api, objects):
    await applied(world, api, coder(objects, source=GIT), objects.secret("git", token="eA=="))
    api.end_pod(clones(api)[0], refuses="https://git.example.com/shop.git requires authentication; check the Secret")
    await world.settle()
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("False", "CloneFailed")
    assert "check the Secret" in message
    assert clones(api) == []
    world.seconds += 60
    await world.later(40)
    (pod,) = clones(api)
    api.end_pod(pod, says=json.dumps({"commit": "d" * 40}))
    await world.settle()
    assert api.find("Agent", "coder")["status"]["workspace"]["source"]["commit"] == "d" * 40
    assert "clone" not in api.find("Agent", "coder")["status"]["workspace"]


@pytest.mark.parametrize(
    ("ref", "code", "is_repeated"),
    [
        pytest.param("c" * 40, 65, False, id="the content of a commit"),
        pytest.param("main", 65, True, id="the content of a branch"),
        pytest.param("c" * 40, 2, True, id="a commit that is not pushed yet"),
    ],
)
async def test_content_of_a_commit_that_was_refused_is_not_cloned_again(world, api, objects, ref, code, is_repeated):
    source = {"git": {**GIT["git"], "ref": ref}}
    await applied(world, api, coder(objects, source=source), objects.secret("git", token="eA=="))
    api.end_pod(clones(api)[0], refuses="the link 'x' leads out of the workspace", code=code, container="clone")
    await world.settle()
    for _ in range(3):
        world.seconds += 600
        await world.later(600)
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert bool(clones(api)) is is_repeated
    assert is_repeated or (status, reason) == ("False", "CloneFailed")
    assert is_repeated or "the link 'x' leads out of the workspace" in message


async def test_at_most_four_clones_run_at_the_same_time(world, api, objects):
    agents = [f"coder-{number}" for number in range(10)]
    source = {"git": {"url": GIT["git"]["url"]}}
    bodies = [objects.agent(name, workspace={"image": "debian", "source": source}) for name in agents]
    await applied(world, api, *bodies)
    assert len(clones(api)) == Settings().probes
    for _ in agents:
        running = clones(api)
        assert 0 < len(running) <= Settings().probes
        waiting = [name for name in agents if is_uncloned(api, name) and not has_clone(api, name)]
        for name in waiting:
            assert "one of 4 other clones" in world.conditions("Agent", name)["WorkspaceReady"][2]
        api.end_pod(running[0], says=json.dumps({"commit": "c" * 40}))
        await world.settle()
    assert not any(is_uncloned(api, name) for name in agents)
    assert clones(api) == []


async def test_clone_of_a_deleted_agent_gives_its_slot_to_the_next(world, api, objects):
    agents = [f"coder-{number}" for number in range(Settings().probes + 1)]
    source = {"git": {"url": GIT["git"]["url"]}}
    bodies = [objects.agent(name, workspace={"image": "debian", "source": source}) for name in agents]
    await applied(world, api, *bodies)
    (waiting,) = [name for name in agents if not has_clone(api, name)]
    api.remove("Agent", next(name for name in agents if name != waiting))
    await world.until(lambda: has_clone(api, waiting))


async def test_clone_that_no_node_takes_gives_its_slot_to_others(world, api, objects):
    agents = [f"coder-{number}" for number in range(Settings().probes + 1)]
    source = {"git": {"url": GIT["git"]["url"]}}
    await applied(
        world, api, *(objects.agent(name, workspace={"image": "debian", "source": source}) for name in agents)
    )
    (waiting,) = [name for name in agents if not has_clone(api, name)]
    world.moment += LONGEST_SECONDS
    await world.later(WAITING_SECONDS)
    assert has_clone(api, waiting)


async def test_clone_whose_reconcile_fails_holds_no_slot(world, api, objects):
    """A webhook that is down refuses the pods of four agents."""
    failing = [f"coder-{number}" for number in range(Settings().probes)]
    source = {"git": {"url": GIT["git"]["url"]}}

    def fail(number, what):
        is_refused = any(f"apply Pod {name}-" in what for name in failing)
        return api_error(500, "failed calling webhook") if is_refused else None

    api.fault = fail
    for name in (*failing, "coder"):
        api.put(objects.agent(name, workspace={"image": "debian", "source": source}))
    await world.start()
    await world.until(lambda: has_clone(api, "coder"), seconds=WAITING_SECONDS + 5)


def has_clone(api, name: str) -> bool:
    return any(pod.startswith(f"{name}-workspace-") for pod in clones(api))


def is_uncloned(api, name: str) -> bool:
    return "source" not in api.find("Agent", name)["status"]["workspace"]


def tolerating(body):
    tolerations = [{"key": "agents", "operator": "Exists"}]
    return {**body, "spec": {**body["spec"], "podTemplate": {"spec": {"tolerations": tolerations}}}}


@pytest.mark.parametrize(("phase", "is_moved"), [("Pending", True), ("Running", False)])
async def test_clone_moves_to_another_placement_until_it_has_begun(world, api, objects, phase, is_moved):
    await applied(world, api, coder(objects, source=GIT), objects.secret("git", token="eA=="))
    (first,) = clones(api)
    api.put({**api.find("Pod", first), "status": {"phase": phase}})
    await world.settle()
    api.put(tolerating(coder(objects, source=GIT)))
    await world.settle()
    (pod,) = clones(api)
    assert (pod != first) is is_moved
    assert ("tolerations" in api.find("Pod", pod)["spec"]) is is_moved
    api.end_pod(pod, says=json.dumps({"commit": "c" * 40}))
    await world.settle()
    assert api.find("Agent", "coder")["status"]["workspace"]["source"]["commit"] == "c" * 40
    assert "coder-workspace" in names_of(api, "Deployment")
    assert clones(api) == []
    assert not [name for name in names_of(api, "NetworkPolicy") if name.startswith(f"{first[:-11]}")]


async def test_clone_whose_pod_is_refused_is_tried_again_with_backoff(world, api, objects):
    api.fault = lambda number, what: api_error(403, "exceeded quota: pods=1") if "apply Pod" in what else None
    for body in (coder(objects, source=GIT), objects.secret("git", token="eA==")):
        api.put(body)
    await world.start()
    none = ("", "", "")
    await world.until(lambda: "quota" in world.conditions("Agent", "coder").get("WorkspaceReady", none)[2])
    await asyncio.sleep(60)
    clone = re.compile(r"(apply|delete) (Pod|NetworkPolicy) coder-workspace-[\w-]+")
    tried = Counter(what.split(" coder")[0] for what in api.writes if clone.fullmatch(what))
    assert tried["apply NetworkPolicy"] == 1
    assert tried["apply Pod"] <= 6
    assert tried.keys() <= {"apply NetworkPolicy", "apply Pod"}
    api.fault = lambda number, what: None
    await world.until(lambda: clones(api) != [], seconds=70)


PROXY = "http://192.0.2.7:3128"
UNREACHABLE = [
    pytest.param({"url": "https://127.0.0.1/shop.git"}, "url", id="a server in the pod"),
    pytest.param({"url": "http://nowhere.shop.svc/shop.git"}, "url", id="a server that is missing"),
    pytest.param(
        {"url": "https://127.0.0.1/shop.git", "proxyURL": PROXY}, "url", id="a server in the pod of the proxy"
    ),
    pytest.param({"url": GIT["git"]["url"], "proxyURL": "http://localhost:3128"}, "proxyURL", id="a proxy in the pod"),
    pytest.param({"url": GIT["git"]["url"], "proxyURL": "http://squid:3128"}, "proxyURL", id="a proxy that is missing"),
]
"""The source, and the field that is wrong."""


@pytest.mark.parametrize(("git", "field"), UNREACHABLE)
async def test_unreachable_git_server_is_reported_without_a_pod(world, api, objects, git, field):
    await applied(world, api, coder(objects, source={"git": git}))
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("False", "SourceUnusable")
    assert message.startswith(f"spec.workspace.source.git.{field}: ")
    assert clones(api) == []


async def test_clone_follows_the_service_of_a_proxy(world, api, objects):
    git = {"url": "http://nowhere.shop.svc/shop.git", "proxyURL": "http://mirror:3128"}
    await applied(world, api, coder(objects, source={"git": git}))
    api.put(mirror(3128))
    await world.settle()
    (pod,) = clones(api)
    *_, rule = api.find("NetworkPolicy", pod)["spec"]["egress"]
    assert rule["to"][0]["podSelector"] == {"matchLabels": {"app": "mirror"}}
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]


AUTHORITY = {"git": {"url": GIT["git"]["url"], "caSecretRef": {"name": "company"}}}
SECRETS = [
    pytest.param(GIT, "git", "token", "secretRef names Secret 'git', which does not exist", id="credentials"),
    pytest.param(
        AUTHORITY, "company", "ca.crt", "caSecretRef names Secret 'company', which does not exist", id="an authority"
    ),
]


@pytest.mark.parametrize(("source", "secret", "key", "says"), SECRETS)
async def test_missing_git_secret_is_reported_until_it_exists(world, api, objects, source, secret, key, says):
    await applied(world, api, coder(objects, source=source))
    status, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert (status, reason) == ("False", "SourceUnusable")
    assert message.startswith(f"spec.workspace.source.git.{says}")
    api.put(objects.secret(secret, **{key: "eA=="}))
    await world.settle()
    (first,) = clones(api)
    api.end_pod(first, refuses="it does not open")
    await world.settle()
    assert clones(api) == []
    api.put(objects.secret(secret, **{key: "eQ=="}))
    await world.settle()
    assert len(clones(api)) == 1, "a changed Secret is tried at once"


async def test_missing_key_of_a_git_authority_is_named(world, api, objects):
    await applied(world, api, coder(objects, source=AUTHORITY), objects.secret("company", other="eA=="))
    _, reason, message = world.conditions("Agent", "coder")["WorkspaceReady"]
    assert reason == "SourceUnusable"
    assert message.startswith("spec.workspace.source.git.caSecretRef names key 'ca.crt' of Secret 'company'")
    assert clones(api) == []


@pytest.mark.parametrize(
    "fields",
    [{"proxyURL": PROXY}, {"caSecretRef": {"name": "company", "key": "root.pem"}}],
    ids=["another proxy", "another authority"],
)
async def test_changed_access_to_the_server_is_tried_at_once(world, api, objects, fields):
    secrets = [objects.secret("company", **{"ca.crt": "eA==", "root.pem": "eA=="})]
    await applied(world, api, coder(objects, source=AUTHORITY), *secrets)
    api.end_pod(clones(api)[0], refuses="the certificate is not trusted")
    await world.settle()
    assert clones(api) == []
    api.put(coder(objects, source={"git": {**AUTHORITY["git"], **fields}}))
    await world.settle()
    assert len(clones(api)) == 1
