"""An agent fills its `/tmp`.

The kubelet evicts the pod, and the Deployment replaces it. The node and other pods stay.
"""

from e2e.scenarios.fleet import Fleet, agent

LIMIT = "64Mi"
_FILL = """
try:
    with open('/tmp/full', 'wb') as file:
        for _ in range(160):
            file.write(bytes(1 << 20))
except OSError as error:
    print(error)
"""


def test_agent_over_its_ephemeral_storage_limit_is_replaced(fleet: Fleet) -> None:
    """An agent that exceeds its ephemeral storage is evicted and replaced; its neighbour keeps running."""
    fleet.apply(agent("hoarder", resources={"limits": {"ephemeral-storage": LIMIT}}), agent("neighbour"))
    fleet.ready("agent/hoarder", "agent/neighbour")
    full, beside = fleet.pod_of("hoarder"), fleet.pod_of("neighbour")
    spec = fleet.get(f"pod/{full}")["spec"]
    assert {"name": "tmp", "emptyDir": {"sizeLimit": LIMIT}} in spec["volumes"]

    fleet.run("exec", full, "--", "python", "-c", _FILL)
    # The kubelet measures volumes once a minute, and compares the last measurement with the limits every ten seconds.
    took = fleet.until(lambda: _evicted(fleet, full), "the pod is evicted")
    print(f"a pod that wrote 160 MiB to a /tmp of {LIMIT} was evicted after {took:.0f} s")

    assert "exceeds the limit" in _evicted(fleet, full)[0]

    fleet.until(lambda: _serving(fleet, "hoarder") not in {"", full}, "another pod serves")
    fleet.ready("agent/hoarder")
    assert fleet.pod_of("neighbour") == beside
    for node in fleet.kubectl.get("nodes")["items"]:
        conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
        assert (conditions["Ready"], conditions["DiskPressure"]) == ("True", "False")


def _evicted(fleet: Fleet, pod: str) -> list[str]:
    """Return the kubelet's message about the eviction.

    The pod itself may succeed, because the agent exits gracefully.
    """
    which = f"--field-selector=involvedObject.name={pod},reason=Evicted"
    return [str(event["message"]) for event in fleet.get("events", which)["items"]]


def _serving(fleet: Fleet, name: str) -> str:
    """Return the running pod of the agent. The API server keeps the record of the evicted pod."""
    pods = fleet.get("pods", f"--selector=fleetwright.dev/agent={name}")["items"]
    return next((str(pod["metadata"]["name"]) for pod in pods if pod["status"]["phase"] == "Running"), "")
