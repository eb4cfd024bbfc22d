"""Skills on the in-memory API: agents keep the files of a deleted Skill, and unused files are deleted."""

import json

import pytest

from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_api.spec.skill import PermissionsSpec, SkillNeeds
from fleetwright_operator.build.config.skill_permissions import permissions_status


async def served(world, api, *agents) -> None:
    for agent in agents:
        api.put(agent)
    await world.start()
    await world.settle()
    for agent in agents:
        api.roll_out(agent["metadata"]["name"])
    await world.settle()


def snapshots(api) -> list[str]:
    return [body["metadata"]["name"] for body in api.all("ConfigMap") if "-skill-" in body["metadata"]["name"]]


def holders(api, snapshot: str) -> list[tuple[str, bool]]:
    owners = api.find("ConfigMap", snapshot)["metadata"].get("ownerReferences", ())
    return [(owner["name"], bool(owner.get("controller"))) for owner in owners]


@pytest.fixture
def poet(objects):
    return objects.agent("poet", skills=[{"name": "haiku"}])


async def test_skill_snapshot_is_owned_by_the_agents_that_mount_it(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet, objects.agent("other"))
    (snapshot,) = snapshots(api)
    assert holders(api, snapshot) == [("haiku", True), ("poet", False)]


async def test_skill_snapshot_gets_its_agent_owner_before_rollout(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet)
    written = [write for write in api.writes if "ConfigMap haiku-skill" in write or "Deployment poet" in write]
    assert written[-1] == "apply Deployment poet"


async def test_deleted_skill_stays_mounted_until_agents_remove_it(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet)
    (snapshot,) = snapshots(api)
    before = api.find("Deployment", "poet")["metadata"]["resourceVersion"]
    revision = api.find("Agent", "poet")["status"]["revision"]

    api.remove("Skill", "haiku")
    await world.settle()
    assert snapshots(api) == [snapshot]
    assert holders(api, snapshot) == [("poet", False)]
    status, reason, message = world.conditions("Agent", "poet")["ReferencesResolved"]
    assert (status, reason) == ("False", "SkillNotFound")
    assert f"revision {revision} keeps serving with the old files" in message
    assert api.find("Deployment", "poet")["metadata"]["resourceVersion"] == before

    api.put(objects.agent("poet"))
    await world.settle()
    await world.until(lambda: api.probes("poet") != [])
    api.end_pod(api.probes("poet")[0])
    await world.settle()
    assert world.conditions("Agent", "poet")["ReferencesResolved"][0] == "True"
    assert snapshots(api) == []


async def test_recreated_skill_adopts_its_snapshot(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet)
    (snapshot,) = snapshots(api)
    api.remove("Skill", "haiku")
    await world.settle()
    again = objects.skill()
    api.put({**again, "metadata": {**again["metadata"], "uid": "another"}})
    await world.settle()
    assert snapshots(api) == [snapshot]
    assert holders(api, snapshot) == [("haiku", True), ("poet", False)]
    assert world.conditions("Agent", "poet")["ReferencesResolved"][0] == "True"


async def test_skill_snapshots_not_mounted_are_pruned_after_deletion(world, api, objects, poet):
    """The former snapshots of a deleted skill are pruned, and the mounted one stays."""
    api.put(objects.skill(text="One."))
    await served(world, api, poet)
    (first,) = snapshots(api)
    api.put(objects.skill(text="Two."))
    await world.until(lambda: api.probes("poet") != [])
    api.end_pod(api.probes("poet")[0])
    await world.settle()
    (second,) = set(snapshots(api)) - {first}
    api.remove("Skill", "haiku")
    await world.settle()
    assert snapshots(api) == [second]


async def test_skill_snapshot_is_pruned_with_last_agent(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet, objects.agent("critic", skills=[{"name": "haiku"}]))
    api.remove("Skill", "haiku")
    await world.settle()
    api.remove("Agent", "poet")
    await world.settle()
    assert len(snapshots(api)) == 1
    api.remove("Agent", "critic")
    await world.settle()
    assert snapshots(api) == []


async def test_removed_snapshot_owner_is_restored_and_restart_is_idle(world, api, objects, poet, make_world):
    """A removed owner reference is written again, and a restart writes nothing."""
    api.put(objects.skill())
    await served(world, api, poet)
    (snapshot,) = snapshots(api)
    owners = api.find("ConfigMap", snapshot)["metadata"]["ownerReferences"]
    api.edit("ConfigMap", snapshot, {"metadata": {"ownerReferences": owners[:1]}})
    await world.settle()
    assert holders(api, snapshot) == [("haiku", True), ("poet", False)]
    await world.stop()
    api.writes.clear()
    another = make_world(api)
    await another.start()
    await another.settle()
    await another.stop()
    assert api.writes == []


async def test_agent_that_removes_a_skill_no_longer_owns_its_snapshot(world, api, objects, poet):
    api.put(objects.skill())
    await served(world, api, poet)
    (snapshot,) = snapshots(api)
    api.put(objects.agent("poet"))
    await world.until(lambda: api.probes("poet") != [])
    assert holders(api, snapshot) == [("haiku", True), ("poet", False)], "the pod still mounts the snapshot"
    api.end_pod(api.probes("poet")[0])
    await world.settle()
    assert holders(api, snapshot) == [("haiku", True)]


# The requirements of skills.

NEEDS = {
    "tools": ["orders/refund", "weather/forecast"],
    "egress": [
        {"host": "api.example.com", "ports": [443], "why": "exchange rates"},
        {"host": "ledger.books", "ports": [80]},
        {"ipBlock": {"cidr": "198.51.100.0/24"}, "ports": [5432, 5433]},
    ],
}


def service(name: str, namespace: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": {}},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    }


def needing(objects, **permissions) -> dict:
    skill = objects.skill()
    return {**skill, "spec": {**skill["spec"], "permissions": permissions}}


async def test_skill_permissions_extend_its_agents_and_are_reported(world, api, objects):
    api.put(needing(objects, **NEEDS))
    api.put(objects.server("orders"))
    api.put(service("ledger", "books"))
    use = {"name": "orders", "tools": {"allow": ["look_up"]}}
    await served(world, api, objects.agent("poet", skills=[{"name": "haiku"}], mcpServers=[use]))
    status = api.find("Agent", "poet")["status"]
    assert status["permissions"]["tools"] == [
        {"name": "orders/refund", "skills": ["haiku"], "granted": True},
        {"name": "weather/forecast", "skills": ["haiku"], "granted": False},
    ]
    assert [way["why"] for way in status["permissions"]["egress"]] == [
        "skill haiku: exchange rates",
        *["skill haiku"] * 2,
    ]
    ways = {way["to"]: way["why"] for way in status["egress"] if way["why"].startswith("skill")}
    assert ways == {
        "api.example.com:443, outside the cluster": "skill haiku: exchange rates",
        "pods of Service books/ledger, port 8080": "skill haiku",
        "198.51.100.0/24, TCP 5432, 5433": "skill haiku",
    }
    rules = api.find("NetworkPolicy", "poet")["spec"]["egress"]
    ranges = [rule for rule in rules if rule["to"] == [{"ipBlock": {"cidr": "198.51.100.0/24"}}]]
    assert [[port["port"] for port in rule["ports"]] for rule in ranges] == [[5432, 5433]]
    (config,) = [body for body in api.all("ConfigMap") if body["metadata"]["name"] == f"poet-{status['revision']}"]
    (server,) = json.loads(config["data"]["agent.json"])["mcpServers"]
    assert server["allow"] == ["look_up", "refund"]


async def test_agent_waits_for_a_service_that_its_skill_needs(world, api, objects, poet):
    ledger = {**NEEDS["egress"][1], "host": "ledger.books.svc"}
    api.put(needing(objects, egress=[ledger]))
    await served(world, api)
    api.put(poet)
    await world.settle()
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1:] == (
        "ServiceNotFound",
        "skill haiku names ledger.books.svc: Service 'ledger' does not exist in namespace 'books'",
    )
    api.put(service("ledger", "books"))
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"


GRANTS = [
    pytest.param({}, {}, True, id="nobody restricts anything"),
    pytest.param({"allow": ["look_up"]}, {}, True, id="the agent allows others"),
    pytest.param({"deny": ["refund"]}, {}, False, id="the agent denies it"),
    pytest.param({"allow": ["look_up"]}, {"allow": ["look_up"]}, False, id="the server's policy allows others"),
    pytest.param({}, {"deny": ["refund"]}, False, id="the server's policy denies it"),
]


@pytest.mark.parametrize(("tools", "policy", "granted"), GRANTS)
def test_skill_permission_extends_allow_lists_but_no_deny_list(objects, tools, policy, granted):
    agent = objects.agent_view(mcpServers=[{"name": "orders", "tools": tools}])
    server = parse_mcp_server(objects.custom("McpServer", "orders", {"toolPolicy": policy}))
    needs = SkillNeeds(permissions=PermissionsSpec(tools=("orders/refund",)))
    found = permissions_status(agent.spec, {"orders": server}, {"haiku": needs})
    assert found == {"tools": [{"name": "orders/refund", "skills": ["haiku"], "granted": granted}]}


PROBLEMS = [
    pytest.param(
        {"tools": ["refund"]}, "spec.permissions.tools[0] 'refund' must have the form <server>/<tool>", id="a tool"
    ),
    pytest.param(
        {"egress": [{"ipBlock": {"cidr": "10.0.0.0/33"}, "ports": [1]}]},
        "spec.permissions.egress[0].ipBlock.cidr '10.0.0.0/33' is not an IP range",
        id="a range",
    ),
    pytest.param(
        {"egress": [{"host": "169.254.169.254", "ports": [80]}]},
        "spec.permissions.egress[0].host: 169.254.169.254 is an address of the node or of the cloud's metadata service",
        id="the metadata address",
    ),
    pytest.param({"egress": [{"host": "localhost", "ports": [80]}]}, "is the agent's own pod", id="the pod itself"),
    pytest.param({"egress": [{"ports": [80]}]}, "needs exactly one of host and ipBlock", id="no place at all"),
]


@pytest.mark.parametrize(("permissions", "says"), PROBLEMS)
async def test_invalid_skill_permission_is_refused_by_name(world, api, objects, poet, permissions, says):
    api.put(needing(objects, **permissions))
    api.put(poet)
    await served(world, api)
    status, reason, message = world.conditions("Skill", "haiku")["Accepted"]
    assert (status, reason) == ("False", "InvalidPermission")
    assert says in message
    assert not api.has("Deployment", "poet")


# Files from Git repositories and images.

GIT = {
    "url": "https://git.example.com/team/skills.git",
    "commit": "a" * 40,
    "path": "haiku",
    "secretRef": {"name": "git"},
}
ELSEWHERE = {
    **GIT,
    "caSecretRef": {"name": "company", "key": "root.pem"},
    "proxyURL": "http://192.0.2.7:3128",
}
COMPANY = {"root.pem": "eA=="}
IMAGE = {"reference": f"registry.example.com/skills/haiku@sha256:{'b' * 64}", "pullSecret": {"name": "pull"}}
LOGIN = {".dockerconfigjson": "e30="}
HEAD = "---\nname: haiku\ndescription: Writes haiku.\n---"
REPORT = {"digest": f"sha256:{'c' * 64}", "head": HEAD, "files": ["SKILL.md", "scripts/count.py"]}


async def look(world, api, **answer: str) -> None:
    await world.until(lambda: api.probes("haiku") != [])
    api.end_pod(api.probes("haiku")[0], **answer)
    await world.settle()


MOUNTED = [
    pytest.param({"git": GIT}, "skill-git", "skill haiku, fetched from git", id="git"),
    pytest.param(
        {"git": ELSEWHERE},
        "skill-git-elsewhere",
        "skill haiku, fetched from git, through its proxy",
        id="git with an authority and a proxy",
    ),
    pytest.param({"image": IMAGE}, "skill-image", None, id="image"),
]
"""The source, the golden file, and the reason for the agent's route to git."""


@pytest.mark.parametrize(("source", "file", "route"), MOUNTED)
async def test_agent_mounts_the_skill_files_that_were_probed(world, api, objects, poet, golden, source, file, route):
    api.put(objects.secret("git", token="eA=="))
    api.put(objects.secret("company", **COMPANY))
    api.put(objects.secret("pull", **LOGIN))
    api.put(objects.custom("Skill", "haiku", {"source": source}))
    api.put(poet)
    await world.start()
    await world.until(lambda: api.probes("haiku") != [])
    (name,) = api.probes("haiku")
    probe = api.find("Pod", name)["spec"]
    ways = api.find("NetworkPolicy", name)["spec"].get("egress", [])
    assert world.conditions("Skill", "haiku")["ReferencesResolved"][1] == "SourcePending"
    await look(world, api, says=json.dumps(REPORT))
    status = api.find("Skill", "haiku")["status"]
    assert (status["digest"], status["description"], status["source"]) == (REPORT["digest"], "Writes haiku.", source)
    assert world.conditions("Skill", "haiku")["Ready"][0] == "True"
    assert api.probes("haiku") == []
    spec = api.find("Deployment", "poet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = [mount for mount in container["volumeMounts"] if mount["name"].startswith("skill-")]
    volumes = [volume for volume in spec["volumes"] if volume["name"].startswith("skill-")]
    parts = {"probe": probe, "ways": ways, "init": spec.get("initContainers"), "volumes": volumes, "mounts": mounts}
    golden(file, [{**parts, "pull": spec.get("imagePullSecrets")}])
    why = [way["why"] for way in api.find("Agent", "poet")["status"]["egress"]]
    assert [each for each in why if each.startswith("skill")] == ([route] if route else [])

    # The operator does not probe the source again, and a deleted Skill leaves its agents unchanged.
    api.writes.clear()
    api.remove("Skill", "haiku")
    await world.settle()
    _, reason, message = world.conditions("Agent", "poet")["ReferencesResolved"]
    assert (reason, "keeps serving with the old files" in message) == ("SkillNotFound", True)
    assert api.find("Deployment", "poet")["spec"]["template"]["spec"] == spec


async def test_restart_repeats_no_skill_probe(world, api, objects, poet, make_world):
    api.put(objects.secret("pull", **LOGIN))
    api.put(objects.custom("Skill", "haiku", {"source": {"image": IMAGE}}))
    api.put(poet)
    await world.start()
    await look(world, api, says=json.dumps(REPORT))
    await world.stop()
    api.writes.clear()
    another = make_world(api)
    await another.start()
    await another.settle()
    await another.stop()
    assert api.writes == []


ANSWERS = [
    pytest.param(
        {"refuses": "the repository has no such commit"},
        ("ReferencesResolved", "SourceUnusable", "the repository has no such commit"),
        id="the probe refuses",
    ),
    pytest.param(
        {"refuses": "https://git.example.com/s cannot be reached", "code": 75},
        ("ReferencesResolved", "SourceUnusable", "https://git.example.com/s cannot be reached"),
        id="the probe could not look",
    ),
    pytest.param(
        {"says": json.dumps({**REPORT, "head": "---\nname: other\ndescription: x\n---"})},
        ("Accepted", "InvalidSkill", "SKILL.md: name is 'other' and must equal the name of the Skill object, 'haiku'"),
        id="the files are another skill",
    ),
    pytest.param(
        {"says": json.dumps({**REPORT, "files": ["SKILL.md", "two words"]})},
        ("Accepted", "InvalidSkill", "'two words' is not a valid path"),
        id="a file has a name that no tool could give",
    ),
    pytest.param({"says": "[]"}, ("ReferencesResolved", "ProbeFailed", "does not end with a report"), id="no report"),
]


@pytest.mark.parametrize(("answer", "wanted"), ANSWERS)
async def test_invalid_skill_source_reports_why(world, api, objects, poet, answer, wanted):
    api.put(objects.secret("pull", **LOGIN))
    api.put(objects.custom("Skill", "haiku", {"source": {"image": IMAGE}}))
    api.put(poet)
    await world.start()
    await world.until(lambda: api.probes("haiku") != [])
    api.end_pod(api.probes("haiku")[0], **answer)
    kind, reason, says = wanted
    await world.until(lambda: world.conditions("Skill", "haiku").get(kind, ("",) * 3)[1] == reason)
    assert says in world.conditions("Skill", "haiku")[kind][2]
    await world.until(lambda: world.conditions("Agent", "poet")["ReferencesResolved"][1] == "SkillNotReady")
    assert not api.has("Deployment", "poet")


async def test_git_server_that_recovers_is_used_within_seventy_seconds(world, api, objects, poet):
    """The answer of an earlier probe must not end the one that runs."""
    api.put(objects.secret("git", token="eA=="))
    api.put(objects.custom("Skill", "haiku", {"source": {"git": GIT}}))
    api.put(poet)
    await world.start()
    down = {"refuses": "https://git.example.com/team/skills.git cannot be reached", "code": 75}
    for _ in range(4):
        await look(world, api, **down)
        assert world.conditions("Skill", "haiku")["ReferencesResolved"][1] == "SourceUnusable"
        assert api.probes("haiku") == []
        api.writes.clear()
        world.seconds += 62
        await world.later(62)
        await world.settle()
        assert len(api.probes("haiku")) == 1
        assert sum("haiku" in what for what in api.writes) <= 4, api.writes
    await look(world, api, says=json.dumps(REPORT))
    assert world.conditions("Skill", "haiku")["Ready"][0] == "True"
    await world.until(lambda: api.has("Deployment", "poet"))


REPEATED = [
    pytest.param({"refuses": "the server requires authentication"}, 1, id="a password may be mended at the server"),
    pytest.param({"refuses": "the commit has no folder 'haiku'", "code": 65}, 0, id="a fixed commit stays as it is"),
    pytest.param(
        {"says": json.dumps({**REPORT, "head": "---\nname: other\ndescription: x\n---"})}, 0, id="so does its name"
    ),
]


@pytest.mark.parametrize(("answer", "probes"), REPEATED)
async def test_only_failures_that_may_pass_are_probed_again(world, api, objects, answer, probes):
    api.put(objects.secret("git", token="eA=="))
    api.put(objects.custom("Skill", "haiku", {"source": {"git": GIT}}))
    await world.start()
    await look(world, api, **answer)
    world.seconds += 400
    await world.later(400)
    await world.settle()
    assert len(api.probes("haiku")) == probes
    if probes:
        await look(world, api, **answer)
    api.put(objects.secret("git", token="eQ=="))
    await world.until(lambda: api.probes("haiku") != [])


async def test_new_commit_is_probed_while_agents_keep_the_old_one(world, api, objects, poet):
    api.put(objects.secret("git", token="eA=="))
    api.put(objects.custom("Skill", "haiku", {"source": {"git": GIT}}))
    api.put(poet)
    await world.start()
    await look(world, api, says=json.dumps(REPORT))
    before = api.find("Deployment", "poet")["spec"]
    api.put(objects.custom("Skill", "haiku", {"source": {"git": {**GIT, "commit": "d" * 40}}}))
    await world.until(lambda: api.probes("haiku") != [])
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "SkillPending"
    assert api.find("Deployment", "poet")["spec"] == before


WITH_AUTHORITY = {**{key: GIT[key] for key in ("url", "commit")}, "caSecretRef": {"name": "company"}}
SECRETS = [
    pytest.param({"git": GIT}, "git", "token", "spec.source.git.secretRef names Secret 'git'", id="of a repository"),
    pytest.param(
        {"image": IMAGE}, "pull", "token", "spec.source.image.pullSecret names Secret 'pull'", id="of a registry"
    ),
    pytest.param(
        {"git": WITH_AUTHORITY},
        "company",
        "ca.crt",
        "spec.source.git.caSecretRef names Secret 'company'",
        id="of an authority",
    ),
]


@pytest.mark.parametrize(("source", "secret", "key", "says"), SECRETS)
async def test_skill_secret_is_named_if_missing_and_retried_on_change(world, api, objects, source, secret, key, says):
    api.put(objects.custom("Skill", "haiku", {"source": source}))
    await world.start()
    await world.settle()
    _, reason, message = world.conditions("Skill", "haiku")["ReferencesResolved"]
    assert (reason, message.startswith(says)) == ("SecretNotFound", True)
    api.put(objects.secret(secret, **{key: "eA=="}))
    await look(world, api, refuses="it does not open")
    assert world.conditions("Skill", "haiku")["ReferencesResolved"][1] == "SourceUnusable"
    api.put(objects.secret(secret, **{key: "eQ=="}))
    await look(world, api, says=json.dumps(REPORT))
    assert world.conditions("Skill", "haiku")["Ready"][0] == "True"


async def test_missing_key_of_a_git_authority_is_named(world, api, objects):
    api.put(objects.secret("company", other="eA=="))
    api.put(objects.custom("Skill", "haiku", {"source": {"git": WITH_AUTHORITY}}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Skill", "haiku")["ReferencesResolved"]
    assert (status, reason) == ("False", "SecretKeyNotFound")
    assert message.startswith("spec.source.git.caSecretRef names key 'ca.crt' of Secret 'company', which has: other.")
    assert api.probes("haiku") == []
    api.put(objects.secret("company", **{"ca.crt": "eA=="}))
    await world.until(lambda: api.probes("haiku") != [])


PLACES = [
    pytest.param(
        {"proxyURL": "http://127.0.0.1:3128"},
        ("Accepted", "InvalidAddress", "spec.source.git.proxyURL: 127.0.0.1 is the agent's own pod"),
        id="a proxy in the pod",
    ),
    pytest.param(
        {"url": "https://169.254.169.254/skills", "proxyURL": "http://192.0.2.7:3128"},
        ("Accepted", "InvalidAddress", "spec.source.git.url: 169.254.169.254 is an address of the node"),
        id="a server that no proxy may reach for it",
    ),
    pytest.param(
        {"proxyURL": "http://squid:3128"},
        ("ReferencesResolved", "ServiceNotFound", "spec.source.git.proxyURL: Service 'squid' does not exist"),
        id="a proxy that is missing",
    ),
]


@pytest.mark.parametrize(("fields", "wanted"), PLACES)
async def test_unusable_proxy_of_a_repository_is_named(world, api, objects, fields, wanted):
    source = {"url": GIT["url"], "commit": GIT["commit"], **fields}
    api.put(objects.custom("Skill", "haiku", {"source": {"git": source}}))
    await world.start()
    await world.settle()
    kind, reason, says = wanted
    status, found, message = world.conditions("Skill", "haiku")[kind]
    assert (status, found, message.startswith(says)) == ("False", reason, True), message
    assert api.probes("haiku") == []


async def test_service_of_a_proxy_is_reached_instead_of_the_server(world, api, objects, poet):
    """The server's own address need not resolve. The agents' policy follows the Service of the proxy."""
    source = {"url": "http://nowhere.shop.svc/skills", "commit": GIT["commit"], "proxyURL": "http://squid:3128"}
    api.put(objects.custom("Skill", "haiku", {"source": {"git": source}}))
    api.put(poet)
    await world.start()
    await world.settle()
    squid = service("squid", "shop")
    port = {"port": 3128, "targetPort": 3129, "protocol": "TCP"}
    api.put({**squid, "spec": {**squid["spec"], "ports": [port]}})
    await look(world, api, says=json.dumps(REPORT))
    api.roll_out("poet")
    await world.settle()

    def reached() -> list[int]:
        rules = api.find("NetworkPolicy", "poet")["spec"]["egress"]
        peers = [(rule["to"][0].get("podSelector"), rule["ports"][0]["port"]) for rule in rules]
        return [port for selector, port in peers if selector == {"matchLabels": {"app": "squid"}}]

    assert reached() == [3129]
    api.put({**squid, "spec": {**squid["spec"], "ports": [{**port, "targetPort": 3130}]}})
    await look(world, api, says=json.dumps(REPORT))  # The probe's own policy changed, so it looks again.
    await world.until(lambda: reached() == [3130])


@pytest.mark.parametrize(
    ("finalizers", "holder"), [([], "the kubelet of its node"), (["example.com/hold"], "example.com/hold")]
)
async def test_probe_whose_pod_stays_in_deletion_says_what_holds_it(world, api, objects, finalizers, holder):
    api.put(objects.secret("git", token="eA=="))
    api.put(objects.custom("Skill", "haiku", {"source": {"git": GIT}}))
    await world.start()
    await world.until(lambda: api.probes("haiku") != [])
    (pod,) = api.probes("haiku")
    held = {"deletionTimestamp": "2026-03-01T12:00:00Z", "finalizers": finalizers}
    api.edit("Pod", pod, {"metadata": held})
    waiting = world.manager.metrics.reconciles.labels(kind="Skill", outcome="waiting")._value
    await world.until(lambda: waiting.get() > 0)
    assert "is being deleted" not in world.conditions("Skill", "haiku")["ReferencesResolved"][2]
    world.seconds += 61
    await world.until(lambda: "is being deleted" in world.conditions("Skill", "haiku")["ReferencesResolved"][2])
    _, reason, message = world.conditions("Skill", "haiku")["ReferencesResolved"]
    assert reason == "ProbeFailed"
    assert f"Pod {pod!r} is being deleted and waits for {holder}" in message
    await world.settle()


PULLS = [
    pytest.param(IMAGE["reference"], "SourceUnusable", 0, id="its own image is the source's fault"),
    pytest.param("docker.io/fleetwright/agent:1", "SourcePending", 1, id="that of the probe is not"),
]


@pytest.mark.parametrize(("image", "reason", "looking"), PULLS)
async def test_image_pull_failure_is_a_probe_result(world, api, objects, image, reason, looking):
    api.put(objects.secret("pull", **LOGIN))
    api.put(objects.custom("Skill", "haiku", {"source": {"image": IMAGE}}))
    await world.start()
    await world.until(lambda: api.probes("haiku") != [])
    waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": not found'}
    container = {"name": "probe", "image": "docker.io/fleetwright/agent:1", "state": {"waiting": waiting}}
    api.set_status("Pod", api.probes("haiku")[0], {"phase": "Pending", "containerStatuses": [container]})
    await world.settle()
    _, said, message = world.conditions("Skill", "haiku")["ReferencesResolved"]
    assert (said, f"image '{image}' cannot be pulled" in message) == (reason, True)
    assert len(api.probes("haiku")) == looking


async def test_config_map_cache_contains_only_skills_in_use(world, api, objects):
    def files(name, *, source):
        api.put(objects.custom("Skill", name, {"source": source}))

    def read():
        return {name: kept[0] for (_, _, name), kept in world.manager.reconciler._kinds["Skill"].read_before.items()}

    document = objects.skill()["spec"]["source"]["inline"]["files"]["SKILL.md"]
    for number in range(3):
        name = f"files-{number}"
        api.put({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"SKILL.md": document}})
    uids = [api.find("ConfigMap", f"files-{number}")["metadata"]["uid"] for number in range(3)]
    files("haiku", source={"configMap": {"name": "files-0"}})
    await world.start()
    for number in (1, 2):
        await world.settle()
        assert read() == {"haiku": uids[number - 1]}
        files("haiku", source={"configMap": {"name": f"files-{number}"}})
    await world.settle()
    assert (read(), api.gets.count("ConfigMap files-2")) == ({"haiku": uids[2]}, 1)
    files("haiku", source={"inline": {"files": {"SKILL.md": document}}})
    await world.settle()
    assert read() == {}
    files("haiku", source={"configMap": {"name": "files-0"}})
    await world.settle()
    assert read() == {"haiku": uids[0]}
    api.remove("Skill", "haiku")
    await world.settle()
    assert read() == {}


async def test_config_map_binary_data_is_refused_by_name(world, api, objects):
    document = objects.skill()["spec"]["source"]["inline"]["files"]["SKILL.md"]
    metadata = {"name": "files", "namespace": "shop"}
    files = {"kind": "ConfigMap", "metadata": metadata, "data": {"SKILL.md": document}}
    api.put({**files, "binaryData": {"assets..logo.png": "iVBORw=="}})
    api.put(objects.custom("Skill", "haiku", {"source": {"configMap": {"name": "files"}}}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Skill", "haiku")["Accepted"]
    assert (status, reason) == ("False", "InvalidSkill")
    assert message.startswith("'assets/logo.png' is binary data of its ConfigMap")
    assert snapshots(api) == []
    api.put(files)
    await world.settle()
    assert world.conditions("Skill", "haiku")["Ready"][0] == "True"
