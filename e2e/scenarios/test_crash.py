"""A pod is killed during a conversation: no accepted message is lost, and no task hangs."""

from e2e.scenarios.fleet import Fleet, agent, text_of


def test_killed_pod_keeps_finished_and_resumes_running_tasks(fleet: Fleet) -> None:
    fleet.apply(agent("survivor"))
    fleet.ready("agent/survivor")
    caller, token = fleet.caller("visitor", of="survivor"), fleet.token("survivor")
    fleet.until(lambda: caller.reaches("survivor", token=token), "the network lets the visitor in")
    told = caller.send("survivor", "My parrot is called Ida.", token=token, context="c1").result["task"]
    slow = "Tell me a story. [[pause:2]]"
    running = caller.send("survivor", slow, token=token, context="c2", now=True).result["task"]
    fleet.until(
        lambda: caller.task("survivor", running["id"], token=token)["status"]["state"] == "TASK_STATE_WORKING",
        "the task is running",
    )

    killed = fleet.pod_of("survivor")
    fleet.run("delete", "pod", killed, "--grace-period=0", "--force")
    fleet.until(lambda: fleet.pod_of("survivor") != killed, "another pod takes its place")
    fleet.run("wait", "--for=condition=Ready", f"pod/{fleet.pod_of('survivor')}", "--timeout=300s")
    fleet.until(lambda: caller.reaches("survivor", token=token), "it can be called")

    finished = caller.task("survivor", told["id"], token=token)
    assert (finished["status"], text_of(finished)) == (told["status"], text_of(told))
    fleet.until(
        lambda: caller.task("survivor", running["id"], token=token)["status"]["state"] == "TASK_STATE_COMPLETED",
        "what was running has come to its end",
    )
    assert text_of(caller.task("survivor", running["id"], token=token))
    asked = caller.send("survivor", "What is my parrot called?", token=token, context="c1").result["task"]
    assert "Ida" in text_of(asked)


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
