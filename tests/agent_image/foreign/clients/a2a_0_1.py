"""A client of A2A 0.1 without an SDK: it makes the common calls of these clients and prints the results as JSON.

It registers a receiver only if its third argument is not empty.
"""

import json
import sys
import threading
import time
import urllib.request
import uuid

url, token, hook = sys.argv[1:4]
credential = {"Authorization": f"Bearer {token}"}
card = json.load(urllib.request.urlopen(urllib.request.Request(f"{url}/.well-known/agent.json", headers=credential)))


def post(method, params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", **credential}
    return urllib.request.urlopen(urllib.request.Request(card["url"], body, headers))


def call(method, params):
    return json.load(post(method, params))


def task(text, name):
    return {"id": name, "message": {"role": "user", "parts": [{"type": "text", "text": text}]}}


def text_of(artifact):
    return artifact["parts"][0]["text"]


first, second, third, fourth, fifth = (uuid.uuid4().hex for _ in range(5))
sent = call("tasks/send", task("hello", first))["result"]
told = [
    json.loads(line.removeprefix(b"data: "))["result"]
    for line in post("tasks/sendSubscribe", task("hello again", second))
    if line.startswith(b"data: ")
]
states = [each["status"]["state"] for each in told if "status" in each]
got = call("tasks/get", {"id": first})["result"]


def begin(text, name):
    """Send a task from a thread, because the call blocks until the task ends."""
    thread = threading.Thread(target=call, args=("tasks/send", task(text, name)))
    thread.start()
    while "error" in call("tasks/get", {"id": name}):
        time.sleep(0.02)
    return thread


running = begin("hang", third)
cancelled = call("tasks/cancel", {"id": third})["result"]
running.join()
asked = call("tasks/send", task("ask Sure?", fourth))["result"]
answered = call("tasks/send", task("yes", fourth))["result"]
registered = False
if hook:
    slow = begin("wait 1", fifth)
    config = {"url": hook, "token": "sesame"}
    call("tasks/pushNotification/set", {"id": fifth, "pushNotificationConfig": config})
    registered = call("tasks/pushNotification/get", {"id": fifth})["result"]["pushNotificationConfig"]["url"] == hook
    slow.join()
question = asked["status"]["message"]["parts"][0]["text"]
report = {
    "card": card["name"],
    "sent": [sent["status"]["state"], text_of(sent["artifacts"][0])],
    "streamed": [states[0], states[-1], text_of([each["artifact"] for each in told if "artifact" in each][-1])],
    "finals": sum(each.get("final", False) for each in told),
    "got": [got["status"]["state"], text_of(got["artifacts"][0])],
    "cancelled": cancelled["status"]["state"],
    "asked": [
        asked["status"]["state"],
        question,
        answered["status"]["state"],
        text_of(answered["artifacts"][0]),
    ],
    "registered": registered,
    "unknown": call("tasks/get", {"id": "nobody"})["error"]["code"],
    "ended": call("tasks/cancel", {"id": first})["error"]["code"],
}
print(json.dumps(report))
