"""a2a-handler's command line as a client: it runs the common commands as a user does and prints the results as JSON."""

import json
import os
import re
import subprocess
import sys
import tempfile

program, url, token, hook = sys.argv[1:5]
home = tempfile.TemporaryDirectory()
# The program stores sessions in its configuration folder and reads the nearest `.env`.
environment = os.environ | {"HOME": home.name, "XDG_CONFIG_HOME": home.name, "AGENT_TOKEN": token}


def run_command(*words, output="json"):
    command = [program, "--output", output, *words, "--url", url, "--bearer-env", "AGENT_TOKEN"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home.name, check=False)


def run(*words):
    done = run_command(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stream_events(*words):
    done = run_command(*words, output="ndjson")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def name_error(*words):
    done = run_command(*words)
    assert done.returncode != 0
    return json.loads(re.search(r"^\{.*^\}", done.stderr, re.MULTILINE | re.DOTALL)[0])["details"]["error"]


def state(task):
    return task["status"]["state"].removeprefix("TASK_STATE_").lower()


def text_of(task):
    return task["artifacts"][0]["parts"][0]["text"]


def send(text, *options):
    return run("message", "send", "--text", text, *options)


with home:
    card = run("card", "get")
    task = send("hello")
    events = stream_events("message", "stream", "--text", "hello again")
    states = [event["state"] for event in events if event["type"] == "status"]
    got = run("task", "get", task["id"])
    running = send("hang", "--no-wait")
    run("task", "notification", "set", running["id"], "--webhook-url", hook)
    receivers = run("task", "notification", "list", running["id"])["configs"]
    cancelled = run("task", "cancel", running["id"])
    asked = send("ask Sure?")
    answered = send("yes", "--task-id", asked["id"], "--context-id", asked["contextId"])
    send("hello", "--push-url", hook, "--push-token", "sesame")
    listed = run("task", "list", "--context-id", task["contextId"])
    report = {
        "card": card["name"],
        "valid": run("card", "validate")["valid"],
        "sent": [state(task), text_of(task)],
        "streamed": [states[0], states[-1], [event["text"] for event in events if event["type"] == "artifact"][-1]],
        "got": [state(got), text_of(got)],
        "cancelled": state(cancelled),
        "asked": [state(asked), asked["status"]["message"]["parts"][0]["text"], state(answered), text_of(answered)],
        "registered": [receiver["url"] for receiver in receivers] == [hook],
        "listed": [found["id"] == task["id"] for found in listed["tasks"]],
        "unknown": name_error("task", "get", "nobody"),
        "ended": name_error("task", "cancel", task["id"]),
    }
print(json.dumps(report))
