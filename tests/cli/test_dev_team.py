"""`fleetwright dev` with a team: the real gateway, delegation at run time, and an agent that sleeps."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml
from tests.support.cli.dev_run import DevRun, run_dev, run_fleetwright
from tests.support.machine import ceiling

from fleetwright_cli.dev.gateway.local_cluster import LocalCluster
from fleetwright_cli.dev.gateway.local_tokens import token_text
from fleetwright_gateway.access.access_reviewer import ACCESS_REVIEWS
from fleetwright_gateway.cluster.resources import AGENTS, PODS
from fleetwright_gateway.identity.token_reviewer import TOKEN_REVIEWS
from fleetwright_kube.errors import ForbiddenError
from fleetwright_kube.port import Object

pytestmark = pytest.mark.starts_first

TEAM = Path(__file__).parents[2] / "examples/research-team/agents.yaml"


TOKEN = "gateway/token"


def _gateway_url(run: DevRun) -> str:
    return run.output().split("starting the gateway at ")[1].split()[0]


def _get(run: DevRun, path: str, *, token: str | None = None) -> httpx.Response:
    token = (run.state / TOKEN).read_text() if token is None else token
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{_gateway_url(run)}{path}", headers=headers, timeout=ceiling(), trust_env=False)


def _send(run: DevRun, agent: str) -> dict[str, Any]:
    """Return the response to a message through the gateway."""
    message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"Authorization": f"Bearer {(run.state / TOKEN).read_text()}", "A2A-Version": "1.0"}
    url = f"{_gateway_url(run)}/agents/dev/{agent}/a2a"
    response = httpx.post(url, json=body, headers=headers, timeout=ceiling(), trust_env=False)
    response.raise_for_status()
    return dict(response.json())


def _wait_for_sleep(run: DevRun) -> None:
    def is_asleep() -> bool:
        items = _get(run, "/v1/agents").json()["items"]
        return any((item["name"], item["phase"]) == ("writer", "Asleep") for item in items)

    run.wait_until(is_asleep, "the writer sleeps")


@pytest.fixture(scope="module")
def team(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevRun]:
    """Run the lead and the writer of the example team. The writer sleeps after three seconds."""
    root = tmp_path_factory.mktemp("team")
    (root / "fleet").mkdir()
    documents = TEAM.read_text().replace("afterIdle: 15m", "afterIdle: 3s").split("\n---\n")
    kept = [text for text in documents if yaml.safe_load(text)["metadata"]["name"] in {"lead", "writer"}]
    (root / "fleet/agents.yaml").write_text("\n---\n".join(kept))
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    with run_dev(root / "fleet", state=root / "state", log=root / "output", environment=environ) as run:
        yield run


def test_lead_asks_a_sleeping_writer_which_wakes_and_sleeps_again(team):
    assert "starting Agent writer" not in team.output()
    said = team.say("lead", 'Ask the agent "writer" "Which advice do we give about oak and chipboard?"')
    assert said.returncode == 0, said.stderr
    assert "lasts four times as long" in said.stdout
    _wait_for_sleep(team)
    said = team.say("writer", "Which advice do we give about oak and chipboard?")
    assert said.returncode == 0, said.stderr
    assert "lasts four times as long" in said.stdout
    # On a busy machine, the writer may sleep again before the message arrives.
    assert team.output().count("Agent writer wakes") >= 2


def test_message_that_arrives_while_an_agent_goes_to_sleep_wakes_it(team):
    sleeps = "Agent writer is idle and sleeps"
    assert "result" in _send(team, "writer")
    before = team.output().count(sleeps)
    team.wait_until(lambda: team.output().count(sleeps) > before, "the writer goes to sleep")
    assert "result" in _send(team, "writer")


@pytest.mark.exhaustive  # the failed start takes half a minute
def test_agent_whose_wake_fails_wakes_with_a_later_message(team):
    """The process cannot start while its configuration folder is a file."""
    _wait_for_sleep(team)
    folder, aside = team.state / "agents/writer/etc", team.state / "aside"
    folder.rename(aside)
    folder.write_text("")
    team.say("writer", "Hello")
    folder.unlink()
    aside.rename(folder)
    said = team.say("writer", "Which advice do we give about oak and chipboard?")
    assert "lasts four times as long" in said.stdout, team.output()


def test_local_gateway_lists_the_team_and_serves_its_api(team):
    listed = _get(team, "/v1/agents").json()
    assert {each["name"]: each["phase"] for each in listed["items"]}.items() >= {"lead": "Running"}.items()
    assert listed["total"] == 2
    assert _get(team, "/v1/agents/dev/lead/peers").json()["total"] == 1
    assert _get(team, "/docs").status_code == 200
    assert _get(team, "/agents/dev/writer/.well-known/agent-card.json").json()["name"] == "writer"


def test_probe_of_an_agent_behind_the_gateway_passes(team, tmp_path):
    """Every agent behind the gateway has a path, which its card repeats."""
    url = f"{_gateway_url(team)}/agents/dev/lead"
    done = run_fleetwright(
        *("probe", url, "--token-file", str(team.state / TOKEN), "-o", "json"),
        environment={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["result"] for each in json.loads(done.stdout)} <= {"passed", "skipped"}


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("nonsense", id="a text"),
        pytest.param(token_text("user:developer", "guessed"), id="the right shape with another secret"),
    ],
)
def test_local_gateway_refuses_unknown_tokens(team, token):
    assert _get(team, "/v1/agents", token=token).status_code == 401


def test_tokens_of_the_run_are_private_files(team):
    files = [team.state / TOKEN, team.state / "gateway/ring.json", team.state / "tokens.json"]
    files.append(team.state / "agents/lead/var/run/fleetwright/gateway/token")
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


# The cluster that the gateway of a local run sees.

SPEC = {"fleet": {"reach": "Direct"}}
PERSON = token_text("user:developer", "of-the-person")
LEAD = token_text("agent:lead", "of-the-lead")


@pytest.fixture
def woken() -> list[str]:
    return []


@pytest.fixture
def cluster(woken: list[str]) -> LocalCluster:
    found = LocalCluster(namespace="dev", person_token=PERSON, on_wake=woken.append)
    found.put_agent("lead", SPEC, cards={"agent-card.json": '{"name": "lead"}'}, token=LEAD, phase="Running")
    return found


async def _review(cluster: LocalCluster, token: str) -> Object:
    body = {"kind": "TokenReview", "metadata": {"namespace": ""}, "spec": {"token": token}}
    return (await cluster.create(TOKEN_REVIEWS, body))["status"]


async def test_agent_token_is_accepted_only_while_its_pod_exists(cluster):
    assert (await _review(cluster, LEAD))["authenticated"] is False
    cluster.put_pod("lead", host="127.0.0.1", ports={"a2a": 1, "ops": 2}, ready=True)
    user = (await _review(cluster, LEAD))["user"]
    assert user["username"] == "system:serviceaccount:dev:lead"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["lead"]
    cluster.remove_pod("lead")
    assert (await _review(cluster, LEAD))["authenticated"] is False


@pytest.mark.parametrize(("user", "allowed"), [("developer", True), ("somebody", False)])
async def test_only_the_person_of_the_run_may_call_agents(cluster, user, allowed):
    answer = await cluster.create(ACCESS_REVIEWS, {"spec": {"user": user}})
    assert answer["status"]["allowed"] is allowed


async def test_local_cluster_creates_no_objects(cluster):
    with pytest.raises(ForbiddenError):
        await cluster.create(PODS, {"kind": "Pod", "metadata": {"namespace": "dev", "name": "x"}})


async def test_wake_patch_is_passed_on_with_the_name_of_the_agent(cluster, woken):
    await cluster.merge(AGENTS, "dev", "lead", {"metadata": {"annotations": {"fleetwright.dev/wake": "now"}}})
    assert woken == ["lead"]


async def test_local_cluster_watch_sends_changes_after_a_version(cluster):
    version = (await cluster.list(PODS, keep=dict, namespace="dev")).resource_version
    watch = aiter(cluster.watch(PODS, namespace="dev", resource_version=version))
    for ready in (False, True):
        cluster.put_pod("lead", host="127.0.0.1", ports={"a2a": 1, "ops": 2}, ready=ready)
        event, body = await anext(watch)
        assert (event, body["status"]["conditions"][0]["status"]) == ("MODIFIED", str(ready))
    cluster.remove_agent("lead")
    assert (await anext(watch))[0] == "DELETED"
