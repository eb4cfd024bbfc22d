"""The model of an agent fails: each task ends with a public reason."""

from e2e.scenarios.fleet import Fleet, agent


def test_model_failure_fails_the_task_with_a_public_reason(fleet: Fleet) -> None:
    """The markers make the model server fail every time. Each task ends within its deadline."""
    fleet.apply(agent("unlucky", model={"timeout": "2s"}))
    fleet.ready("agent/unlucky")
    caller, token = fleet.caller("patient", of="unlucky"), fleet.token("unlucky")
    fleet.until(lambda: caller.reaches("unlucky", token=token), "the network lets the caller in")
    reasons = {
        "401": "model_unauthorized",
        "429": "model_rate_limited",
        "500": "model_error",
        "hang": "model_timeout",
        "malformed": "model_malformed_tool_call",
    }
    seen = {}
    for marker in reasons:
        task = caller.send("unlucky", f"Hello [[fail:{marker}]]", token=token).result["task"]
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        said = task["status"]["message"]
        seen[marker] = said["metadata"]["reason"]
        assert "Traceback" not in str(said)
        assert "offline-model" not in str(said)
    assert seen == reasons
