"""Skills against a real API server and its garbage collector."""

import json

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS

DOCUMENT = "---\nname: haiku\ndescription: Writes haiku.\n---\nThree lines."
SKILL = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Skill",
    "metadata": {"name": "haiku"},
    "spec": {"source": {"inline": {"files": {"SKILL.md": DOCUMENT}}}},
}


def owners(space, snapshot: str) -> set[tuple[str, str]]:
    found = space.find("ConfigMap", snapshot) or {"metadata": {}}
    return {(owner["kind"], owner["name"]) for owner in found["metadata"].get("ownerReferences", ())}


def _owned_by(space, snapshot: str, *wanted: tuple[str, str]) -> None:
    # The garbage collector discovers new kinds twice a minute.
    space.eventually(lambda: owners(space, snapshot) == set(wanted), f"owned by {wanted}", promised=LONG_SECONDS)


@pytest.fixture
def snapshot(space, kubelet, operator) -> str:
    """Return the snapshot of a Skill that a serving agent mounts."""
    space.apply(SKILL)
    space.agent("poet", skills=[{"name": "haiku"}])
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    return str(space.get("Skill", "haiku")["status"]["snapshot"])


def test_deleted_skill_in_use_leaves_its_agents_serving(space, kubelet, snapshot):
    """A deleted skill in use leaves its agents the revision that serves."""
    assert owners(space, snapshot) == {("Skill", "haiku"), ("Agent", "poet")}
    revision = space.get("Agent", "poet")["status"]["revision"]
    space.admin.delete("Skill", space.name, "haiku")
    space.wait(
        "Agent", "poet", "ReferencesResolved", "False", says=f"revision {revision} keeps serving with the old files"
    )
    assert space.condition("Agent", "poet", "ReferencesResolved")["reason"] == "SkillNotFound"
    _owned_by(space, snapshot, ("Agent", "poet"))

    # A recreated pod still finds the files that it mounts.
    space.admin.delete("Pod", space.name, kubelet.run("poet"))
    volumes = space.get("Pod", kubelet.run("poet"))["spec"]["volumes"]
    mounted = next(volume["configMap"]["name"] for volume in volumes if volume["name"] == "skill-haiku")
    assert space.get("ConfigMap", mounted)["data"]["SKILL.md"] == DOCUMENT

    before = space.get_operator_fields("Deployment", "poet")
    space.apply(SKILL)
    space.wait("Agent", "poet", "ReferencesResolved", "True")
    _owned_by(space, snapshot, ("Skill", "haiku"), ("Agent", "poet"))
    assert space.get_operator_fields("Deployment", "poet") == before


def test_skill_snapshot_is_pruned_when_no_agent_mounts_it(space, kubelet, snapshot):
    space.admin.delete("Skill", space.name, "haiku")
    space.wait("Agent", "poet", "ReferencesResolved", "False", says="does not exist")
    space.agent("poet")
    kubelet.prove("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    space.eventually(lambda: space.find("ConfigMap", snapshot) is None, "nobody mounts it")


def test_skill_snapshot_is_pruned_with_its_last_agent(space, kubelet, snapshot):
    space.admin.delete("Skill", space.name, "haiku")
    _owned_by(space, snapshot, ("Agent", "poet"))
    space.admin.delete("Agent", space.name, "poet")
    space.eventually(lambda: space.find("ConfigMap", snapshot) is None, "nobody is left", promised=LONG_SECONDS)


@pytest.mark.parametrize(
    "source",
    [
        {"git": {"url": "https://git.example.com/team/skills.git", "commit": "a" * 40, "path": "haiku"}},
        {
            "git": {
                "url": "https://git.example.com/team/skills.git",
                "commit": "a" * 40,
                "caSecretRef": {"name": "pull", "key": "login"},
                "proxyURL": "http://192.0.2.7:3128",
            }
        },
        {"image": {"reference": f"registry.example.com/haiku@sha256:{'b' * 64}", "pullSecret": {"name": "pull"}}},
    ],
    ids=["git", "git with an authority and a proxy", "image"],
)
def test_remote_skill_is_probed_and_mounted(space, kubelet, operator, source):
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "stringData": {"login": "x"}})
    space.apply(
        {**SKILL, "spec": {"source": source, "permissions": {"egress": [{"host": "a.example", "ports": [443]}]}}}
    )
    space.agent("poet", skills=[{"name": "haiku"}])
    head = DOCUMENT.rsplit("\n", 1)[0]
    report = {"digest": f"sha256:{'c' * 64}", "head": head, "files": ["SKILL.md"]}
    kubelet.probed("haiku", says=json.dumps(report), kind="skill")
    space.wait("Skill", "haiku", "Ready", "True")
    assert space.get("Skill", "haiku")["status"]["source"] == source
    space.wait("Agent", "poet", "Programmed", "True")
    status = space.get("Agent", "poet")["status"]
    assert status["skills"] == [{"name": "haiku", "digest": report["digest"]}]
    assert status["permissions"] == {"egress": [{"to": "a.example", "ports": [443], "why": "skill haiku"}]}
    spec = space.get("Deployment", "poet")["spec"]["template"]["spec"]
    volume = next(volume for volume in spec["volumes"] if volume["name"] == "skill-haiku")
    if "image" in source:
        assert volume["image"]["reference"] == source["image"]["reference"]
    else:
        assert f"--digest={report['digest']}" in spec["initContainers"][0]["command"]
    space.eventually(lambda: space.get("Pod", kubelet.run("poet")), "the API server takes such a pod")
