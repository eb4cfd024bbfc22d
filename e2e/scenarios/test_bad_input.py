"""Invalid input is refused at the apply or reported by a condition.

The object heals, and other objects are unaffected.
"""

import base64
from typing import Any

import pytest
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Fleet, agent, text_of


@pytest.mark.parametrize(
    ("manifest", "wanted"),
    [
        pytest.param(agent("Bad_Name"), "metadata.name", id="a name that no Service can have"),
        pytest.param(agent("a", instructions=""), "spec.instructions", id="no instructions"),
        pytest.param(agent("a", peers=[{"name": "a"}]), "remove that entry", id="an agent that is its own peer"),
        pytest.param(agent("a", model={"price": {"inputPerMillion": "cheap"}}), "price", id="a price that is no price"),
        pytest.param(agent("a", compaction={"mode": "Sometimes"}), "Enforce", id="an unknown mode"),
        pytest.param(
            agent("a", compaction={"trigger": {"contextFraction": "1.5"}}), "contextFraction", id="a fraction above one"
        ),
        pytest.param(agent("a", surplus=1), "surplus", id="a field that is not there"),
    ],
)
def test_kubectl_apply_names_the_field_and_the_remedy(fleet: Fleet, manifest: dict[str, Any], wanted: str) -> None:
    assert wanted in fleet.refused(manifest)


def test_mcp_server_requires_exactly_one_of_remote_and_workload(fleet: Fleet) -> None:
    both = {"remote": {"url": "http://a/mcp"}, "workload": {"image": "a"}}
    assert "exactly one of" in fleet.refused(_server("both", both))
    assert "exactly one of" in fleet.refused(_server("none", {}))


def _server(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}, "spec": spec}


def _skill(name: str, document: str) -> dict[str, Any]:
    spec = {"source": {"inline": {"files": {"SKILL.md": document}}}}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Skill", "metadata": {"name": name}, "spec": spec}


def test_agent_names_missing_references_and_starts_with_them(fleet: Fleet) -> None:
    key = {"name": "provider-key", "key": "api-key"}
    wanted = agent(
        "waiting",
        skills=[{"name": "tricks"}],
        mcpServers=[{"name": "tools"}],
        peers=[{"name": "helper"}],
        model={"apiKeySecretRef": key},
    )
    fleet.apply(agent("bystander"), wanted)
    fleet.ready("agent/bystander")
    # The operator shows the activity of an agent soon after the agent is Ready.
    fleet.until(lambda: "activity" in fleet.get("agent/bystander")["status"], "the bystander's activity is shown")
    bystander = fleet.get("agent/bystander")["metadata"]["resourceVersion"]

    def message() -> str:
        return fleet.condition("agent/waiting", "ReferencesResolved")[2]

    fleet.until(
        lambda: all(name in message() for name in ("tricks", "tools", "helper", "provider-key")), "all are named"
    )
    assert fleet.condition("agent/waiting", "Available")[2].startswith("blocked by ReferencesResolved")

    fleet.apply(_skill("tricks", "no front matter at all"))
    fleet.until(lambda: fleet.condition("skill/tricks", "Ready")[0] == "False", "the invalid skill is said")
    assert "must start with" in fleet.condition("skill/tricks", "Ready")[2]
    assert "tricks" in message()

    fleet.apply(
        _skill("tricks", "---\nname: tricks\ndescription: Some tricks\n---\nBe clever.\n"),
        _server("tools", {"workload": {"image": fleet.image, "command": ["fleetwright", "offline-orders"],
                                       "env": [{"name": "HOST", "value": "0.0.0.0"}]}}),
        agent("helper"),
        _secret("provider-key", {"another-key": "x"}),
    )  # fmt: skip
    fleet.until(lambda: "api-key" in message() and "tricks" not in message(), "only the missing key is left")
    fleet.apply(_secret("provider-key", {"api-key": "x"}))
    fleet.ready("agent/waiting")
    assert fleet.get("agent/bystander")["metadata"]["resourceVersion"] == bystander


def _secret(name: str, content: dict[str, str]) -> dict[str, Any]:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in content.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def test_agent_keeps_running_when_a_referenced_skill_is_deleted(fleet: Fleet) -> None:
    fleet.apply(_skill("craft", "---\nname: craft\ndescription: A craft\n---\nSlowly.\n"))
    fleet.apply(agent("steady", skills=[{"name": "craft"}]))
    fleet.ready("agent/steady")
    caller, token = fleet.caller("visitor", of="steady"), fleet.token("steady")
    fleet.until(lambda: caller.reaches("steady", token=token), "the network lets the visitor in")
    pod = fleet.pod_of("steady")

    fleet.run("delete", "skill", "craft")
    fleet.until(
        lambda: fleet.condition("agent/steady", "ReferencesResolved")[0] == "False", "the missing skill is said"
    )
    task = caller.send("steady", "Still there?", token=token).result["task"]
    assert "Still there?" in text_of(task)
    assert fleet.pod_of("steady") == pod


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        pytest.param({"image": "docker.io/fleetwright/nothing:0"}, "nothing", id="an image that is not to be had"),
        pytest.param({"command": ["false"]}, "exit", id="a server that ends at once"),
    ],
)
def test_available_condition_names_an_actionable_cause(fleet: Fleet, broken: dict[str, Any], reason: str) -> None:
    workload = {"image": fleet.image, "command": ["fleetwright", "offline-orders"], **broken}
    name = f"broken-{reason}"
    fleet.apply(_server(name, {"workload": workload}))
    fleet.until(lambda: reason in fleet.condition(f"mcpserver/{name}", "Available")[2], "the cause")
    assert fleet.condition(f"mcpserver/{name}", "Ready")[0] == "False"


def test_unreachable_mcp_server_degrades_its_agents(fleet: Fleet) -> None:
    """No server listens behind the Service. The agent answers without its tools, and heals when the server is there."""
    silent = workloads.service("silent")
    fleet.apply(silent, _server("mute", {"remote": {"url": "http://silent/mcp"}}))
    fleet.apply(agent("handicapped", mcpServers=[{"name": "mute"}]))
    fleet.ready("agent/handicapped")
    fleet.until(lambda: "mute" in fleet.condition("agent/handicapped", "Degraded")[2], "the server")
    caller, token = fleet.caller("guest", of="handicapped"), fleet.token("handicapped")
    fleet.until(lambda: caller.reaches("handicapped", token=token), "the network lets the guest in")
    task = caller.send("handicapped", "Are you well?", token=token).result["task"]
    assert "Are you well?" in text_of(task), "it answers all the same"
    fleet.apply(workloads.pod("silent", image=fleet.image, command=workloads.SERVE))
    fleet.until(lambda: not fleet.condition("agent/handicapped", "Degraded")[0], "it is whole again")
