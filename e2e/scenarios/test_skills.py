"""Skills from a git commit and from an image, on real pods, and the files that agents keep if the source fails or is
deleted.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.buildah import Buildah
from e2e.cluster.image_list import REGISTRY
from e2e.cluster.images import Images
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Caller, Fleet, agent, answer, user
from e2e.scenarios.registry import GUARDED, OPEN, Registry, started
from tests.support.machine import ceiling

GIT_SERVER = Path(__file__).with_name("git_server.py").read_text()
NOWHERE = "0" * 40
PASSWORD = "open-sesame"
SEARCH = "grep -rs . /etc/fleetwright /tmp; cat /proc/*/environ; ls -R /etc/fleetwright"


def document(name: str, rule: str) -> str:
    return f"---\nname: {name}\ndescription: How to speak\n---\n{rule}\n"


def skill(name: str, **source: Any) -> dict[str, Any]:
    head = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Skill", "metadata": {"name": name}}
    return {**head, "spec": {"source": source}}


def secret(name: str, **values: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


@dataclass(frozen=True)
class Repository:
    """A git repository that is served in the cluster, with and without a password."""

    address: str
    commits: tuple[str, ...]

    def at(self, number: int, *, path: str, private: str = "") -> dict[str, Any]:
        """Return the source at one of the commits. `private` is the Secret with the password."""
        where = "/private" if private else ""
        git = {"url": f"{self.address}{where}/skills.git", "commit": self.commits[number], "path": path}
        return {"git": {**git, **({"secretRef": {"name": private}} if private else {})}}


@pytest.fixture(scope="module")
def repository(fleet: Fleet) -> Repository:
    rules = {"team/manners": "Say please.", "oath": "Say it on oath.", "song": "Sing it."}
    first = {f"{path}/SKILL.md": document(path.rpartition("/")[2], rule) for path, rule in rules.items()}
    second = {"team/manners/SKILL.md": document("manners", "Say thank you."), "team/manners/words.md": "Gladly.\n"}
    history = [first, first | second]
    server = workloads.pod("git", image=fleet.image, command=("python", "-c", GIT_SERVER))
    variables = {"COMMITS": json.dumps(history), "PASSWORD": PASSWORD, "PORT": str(workloads.PORT)}
    server["spec"]["containers"][0]["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    fleet.apply(server, workloads.service("git"))
    fleet.ready("pod/git")
    fleet.until(lambda: fleet.run("logs", "git"), "the repository is served")
    commits = json.loads(fleet.run("logs", "git").splitlines()[0])
    return Repository(f"http://git.{fleet.namespace}.svc", (*commits, NOWHERE))


def file(fleet: Fleet, name: str, path: str) -> str:
    """Return a file of the skill in the agent's running pod."""
    return fleet.run("exec", fleet.pod_of(name), "--container=agent", "--", "cat", f"/etc/fleetwright/skills/{path}")


def says(fleet: Fleet, of: str, words: str, *, kind: str = "ReferencesResolved") -> bool:
    return words in fleet.condition(of, kind)[2]


def replaced(fleet: Fleet, name: str) -> None:
    """Delete the agent's pod, and wait until another pod is ready."""
    before = fleet.pod_of(name)
    fleet.run("delete", "pod", before, "--wait=false")
    fleet.until(lambda: fleet.pod_of(name) != before, "another pod takes its place")
    fleet.run("wait", "--for=condition=Ready", f"pod/{fleet.pod_of(name)}", f"--timeout={ceiling():.0f}s")


@pytest.fixture(scope="module")
def polite(fleet: Fleet, repository: Repository) -> tuple[Caller, str]:
    """An agent with a skill from a commit, and a caller of this agent."""
    fleet.apply(skill("manners", **repository.at(0, path="team/manners")))
    return user(fleet, "polite", skills=[{"name": "manners"}])


def test_git_skill_uses_its_commit_and_rolls_out_a_new_one(
    fleet: Fleet, repository: Repository, polite: tuple[Caller, str]
) -> None:
    """An agent answers by the skill of one commit, and another commit creates another revision."""
    caller, token = polite
    assert "Say please." in answer(caller, "polite", "Load the manners skill.", token)
    ways = {way["why"]: way["to"] for way in fleet.get("agent/polite")["status"]["egress"]}
    assert ways["skill manners, fetched from git"] == f"pods of Service {fleet.namespace}/git, port {workloads.PORT}"

    fleet.apply(skill("manners", **repository.at(1, path="team/manners")))
    fleet.until(lambda: serves(fleet, "polite", "manners"), "the agent has the next commit")
    assert "Say thank you." in file(fleet, "polite", "manners/SKILL.md")
    assert file(fleet, "polite", "manners/words.md") == "Gladly.\n"
    # The probes are over: neither their pods nor their network policies remain.
    probes = ("pods,networkpolicies", "--selector=app.kubernetes.io/component=probe")
    fleet.until(lambda: not fleet.get(*probes)["items"], "the probes are gone")


def serves(fleet: Fleet, name: str, of: str) -> bool:
    """Return True if the agent's ready pod has the current files of its Skill."""
    seen, now = fleet.get(f"agent/{name}"), fleet.get(f"skill/{of}")
    current = now["status"]["observedGeneration"] == now["metadata"]["generation"]
    digests = [held["digest"] for held in seen["status"].get("skills", ())]
    ready = fleet.condition(f"agent/{name}", "Ready")[0] == "True"
    return current and digests == [now["status"]["digest"]] and ready


@pytest.mark.usefixtures("polite")
def test_missing_commit_keeps_the_last_good_skill(fleet: Fleet, repository: Repository) -> None:
    """A missing commit leaves the agent its last good skill, also in a new pod."""
    pod, revision = fleet.pod_of("polite"), fleet.get("agent/polite")["status"]["revision"]
    good, text = fleet.get("skill/manners")["spec"]["source"], file(fleet, "polite", "manners/SKILL.md")

    fleet.apply(skill("manners", **repository.at(2, path="team/manners")))
    fleet.until(lambda: says(fleet, "skill/manners", f"has no commit {NOWHERE}"), "the Skill names the commit")
    assert fleet.condition("skill/manners", "ReferencesResolved")[1] == "SourceUnusable"
    fleet.until(lambda: says(fleet, "agent/polite", "Skill 'manners'"), "the agent says which skill it waits for")
    assert fleet.pod_of("polite") == pod
    replaced(fleet, "polite")
    assert file(fleet, "polite", "manners/SKILL.md") == text
    assert fleet.get("agent/polite")["status"]["revision"] == revision

    fleet.apply(skill("manners", **good))
    fleet.ready("skill/manners", "agent/polite")
    assert fleet.get("agent/polite")["status"]["revision"] == revision


def test_private_git_secret_never_reaches_the_agent(fleet: Fleet, repository: Repository) -> None:
    """A Secret opens a private repository, and the agent never sees it."""
    fleet.apply(skill("oath", **repository.at(0, path="oath", private="git")))
    fleet.until(lambda: says(fleet, "skill/oath", "Secret 'git', which does not exist"), "the Secret is missed")
    fleet.apply(secret("git", token="another"))
    fleet.until(lambda: says(fleet, "skill/oath", "requires authentication; check the Secret"), "it is refused")
    fleet.apply(secret("git", token=PASSWORD), agent("knight", skills=[{"name": "oath"}]))
    fleet.ready("skill/oath", "agent/knight")
    assert "Say it on oath." in file(fleet, "knight", "oath/SKILL.md")
    pod = fleet.pod_of("knight")
    assert PASSWORD not in fleet.run("exec", pod, "--container=agent", "--", "sh", "-c", SEARCH)

    fleet.apply(secret("git", token="another"))
    fleet.until(
        lambda: says(fleet, "skill/oath", "check the Secret"), "the changed Secret is tried at once", promised=5
    )
    fleet.until(lambda: says(fleet, "agent/knight", "Skill 'oath'"), "the agent says which skill it waits for")
    assert fleet.pod_of("knight") == pod
    assert PASSWORD not in fleet.run("get", "skill/oath", "agent/knight", f"pod/{pod}", "-o", "json")
    assert PASSWORD not in fleet.run("get", "events", "-o", "json")


@pytest.fixture(scope="module")
def registry(fleet: Fleet, provider: Provider, progress: Progress) -> Registry:
    engine = provider.engine()
    if not isinstance(engine, Buildah):
        pytest.skip("the images of skills are built and pushed with buildah, which this cluster does without")
    built = Images(engine, progress, local_base=provider.local_base).build([REGISTRY.name])
    provider.load(built)
    return started(fleet, engine, image=built[-1].pinned)


def test_skill_image_is_mounted_read_only_by_digest(fleet: Fleet, registry: Registry) -> None:
    """A skill image is mounted read-only by its digest, regardless of where its tag moves."""
    first = registry.reference("motto", registry.publish("motto", {"SKILL.md": document("motto", "Measure twice.")}))
    need = {"host": "registry", "ports": [OPEN], "why": "to look for more"}
    motto = skill("motto", image={"reference": first})
    fleet.apply({**motto, "spec": {**motto["spec"], "permissions": {"egress": [need]}}})
    caller, token = user(fleet, "tailor", skills=[{"name": "motto"}])
    fleet.until(lambda: fleet.reaches(fleet.pod_of("tailor"), "registry", OPEN), "the way that the skill needs is open")
    assert not fleet.reaches(fleet.pod_of("tailor"), "registry", GUARDED)
    assert fleet.get("skill/motto")["status"]["usedBy"] == 1
    assert fleet.get("skill/motto")["status"]["source"] == {"image": {"reference": first}}
    assert "Measure twice." in answer(caller, "tailor", "Load the motto skill.", token)
    write = ("python", "-c", "open('/etc/fleetwright/skills/motto/SKILL.md', 'w')")
    where = ("exec", fleet.pod_of("tailor"), f"--namespace={fleet.namespace}", "--")
    assert "Read-only file system" in fleet.kubectl.attempt(*where, *write).stderr

    files = {"SKILL.md": document("motto", "Cut once."), "why.md": "Cloth is dear.\n"}
    second = registry.reference("motto", registry.publish("motto", files))
    assert second != first
    replaced(fleet, "tailor")
    assert "Measure twice." in file(fleet, "tailor", "motto/SKILL.md")
    fleet.apply(skill("motto", image={"reference": second}))
    fleet.until(lambda: serves(fleet, "tailor", "motto"), "the agent has the next image")
    assert "Cut once." in file(fleet, "tailor", "motto/SKILL.md")
    assert file(fleet, "tailor", "motto/why.md") == "Cloth is dear.\n"


def test_skill_image_pull_secret_is_used_and_its_errors_reported(fleet: Fleet, registry: Registry) -> None:
    """A pull secret gives access to a private image. If the secret is wrong, the Skill reports the reason."""
    digest = registry.publish("seal", {"SKILL.md": document("seal", "Say nothing of this.")})
    closed = registry.reference("seal", digest, port=GUARDED)
    fleet.apply(skill("seal", image={"reference": closed, "pullSecret": {"name": "team"}}))
    fleet.until(lambda: says(fleet, "skill/seal", "Secret 'team', which does not exist"), "the Secret is missed")
    fleet.apply(registry.pull_secret("team", password="another"))
    fleet.until(lambda: says(fleet, "skill/seal", "cannot be pulled"), "the Skill says what is wrong")
    _, reason, message = fleet.condition("skill/seal", "ReferencesResolved")
    assert reason == "SourceUnusable"
    assert digest in message
    assert "401 Unauthorized" in message

    fleet.apply(registry.pull_secret("team"), agent("clerk", skills=[{"name": "seal"}]))
    fleet.ready("skill/seal", promised=5)  # The operator retries immediately when the Secret changes.
    fleet.ready("agent/clerk")
    assert "Say nothing of this." in file(fleet, "clerk", "seal/SKILL.md")


def test_deleted_skill_files_stay_until_it_is_created_again(
    fleet: Fleet, repository: Repository, registry: Registry
) -> None:
    """A deleted skill leaves its agent the files, also in a new pod, until it is created again."""
    digest = registry.publish("flag", {"SKILL.md": document("flag", "Show it.")})
    skills = [skill("flag", image={"reference": registry.reference("flag", digest)})]
    skills.append(skill("song", **repository.at(0, path="song")))
    fleet.apply(*skills, agent("guide", skills=[{"name": "flag"}, {"name": "song"}]))
    fleet.ready("agent/guide")
    revision = fleet.get("agent/guide")["status"]["revision"]

    fleet.run("delete", "skill", "flag", "song")
    fleet.until(lambda: gone(fleet, "guide", revision), "the agent says what is gone and what serves")
    replaced(fleet, "guide")
    assert "Show it." in file(fleet, "guide", "flag/SKILL.md")
    assert "Sing it." in file(fleet, "guide", "song/SKILL.md")

    fleet.apply(*skills)
    fleet.ready("skill/flag", "skill/song", "agent/guide")
    assert fleet.get("agent/guide")["status"]["revision"] == revision


def gone(fleet: Fleet, name: str, revision: str) -> bool:
    _, reason, message = fleet.condition(f"agent/{name}", "ReferencesResolved")
    return reason == "SkillNotFound" and f"revision {revision} keeps serving" in message
