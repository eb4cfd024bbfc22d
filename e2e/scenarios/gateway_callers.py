"""Concurrent callers of one agent, for scenarios. The program runs in a pod and uses the standard library only.

Its argument is a JSON document: `url` and `token` of the agent, and three kinds of callers. `senders` is the number of
callers that send the message `short` one after another, until the file `STOP` exists. Half of them keep their
connection. Each text in `calls` is one message whose caller waits for the answer. Each text in `streams` is one message
whose caller reads the event stream.

The program prints one JSON line for each step of a message. A caller whose connection breaks sends the same message
again, with the same messageId. A caller whose stream breaks subscribes to the task and continues to read.
"""

import http.client
import json
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

STOP = Path("/tmp/stop")
_ATTEMPTS = 300
_PAUSE = 0.2
_SILENCE = 60
_OK = 200
_ENDED = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_output = threading.Lock()


class Message:
    """One message, and what its caller knows about its task."""

    def __init__(
        self, plan: dict[str, Any], kind: str, text: str, connection: http.client.HTTPConnection | None = None
    ) -> None:
        """Args: `connection` is the one that the caller keeps; by default each request has a new connection."""
        self._plan = plan
        self._connection = connection
        self._kind = kind
        self._id = str(uuid.uuid4())
        self._asked = text
        self._message = {"messageId": self._id, "role": "ROLE_USER", "parts": [{"text": text}]}
        self._task = self._state = self._text = ""

    def call(self) -> None:
        """Send the message and wait for the answer."""
        self._repeat(self._ask)

    def stream(self) -> None:
        """Send the message and read its event stream to the end of the task."""
        self._repeat(self._read)

    def _repeat(self, attempt: Callable[[], None]) -> None:
        for _ in range(_ATTEMPTS):
            try:
                attempt()
            except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
                self._print("broken", error=repr(error))
                if self._connection is not None:
                    self._connection.close()
            if self._state in _ENDED:
                self._print("ended", state=self._state, text=self._text)
                return
            time.sleep(_PAUSE)
        self._print("lost")

    def _ask(self) -> None:
        with self._post("SendMessage", {"message": self._message}) as response:
            self._adopt(json.load(response)["result"]["task"])

    def _read(self) -> None:
        subscribes = bool(self._task)
        method = "SubscribeToTask" if subscribes else "SendStreamingMessage"
        with self._post(method, {"id": self._task} if subscribes else {"message": self._message}) as response:
            if "event-stream" not in response.headers["Content-Type"]:
                self._fetch()
                return
            for number, event in enumerate(_events(response)):
                self._event(event)
                if number == 0:
                    self._print("resumed" if subscribes else "begun")
        if self._state not in _ENDED:
            self._print("truncated")

    def _fetch(self) -> None:
        """Read a task that has ended while its caller had no stream."""
        with self._post("GetTask", {"id": self._task}) as response:
            self._adopt(json.load(response)["result"])

    def _event(self, event: dict[str, Any]) -> None:
        if "task" in event:
            self._adopt(event["task"])
        elif "artifactUpdate" in event:
            update = event["artifactUpdate"]
            self._text = (self._text if update.get("append") else "") + _words([update["artifact"]])
        elif "statusUpdate" in event:
            self._state = event["statusUpdate"]["status"]["state"]

    def _adopt(self, task: dict[str, Any]) -> None:
        self._task, self._state, self._text = task["id"], task["status"]["state"], _words(task.get("artifacts", []))

    def _post(self, method: str, params: dict[str, Any]) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        headers["Authorization"] = f"Bearer {self._plan['token']}"
        if self._connection is None:
            return _opener.open(urllib.request.Request(self._plan["url"], body, headers), timeout=_SILENCE)
        self._connection.request("POST", urlsplit(self._plan["url"]).path, body, headers)
        response = self._connection.getresponse()
        if response.status != _OK:
            raise http.client.HTTPException(f"status {response.status}")
        return response

    def _print(self, step: str, **facts: str) -> None:
        known = {"step": step, "kind": self._kind, "asked": self._asked, "id": self._id, "task": self._task}
        with _output:
            print(json.dumps({**known, **facts}), flush=True)


def _events(response: Any) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream. Unlike `readline`, `read1` fails if the connection ends before the response."""
    pending = b""
    while piece := response.read1(65536):
        *lines, pending = (pending + piece).split(b"\n")
        yield from (json.loads(line[5:])["result"] for line in lines if line.startswith(b"data:"))


def _words(artifacts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for artifact in artifacts for part in artifact["parts"])


def _send_until_stopped(plan: dict[str, Any], number: int) -> None:
    host = urlsplit(plan["url"]).netloc
    connection = http.client.HTTPConnection(host, timeout=_SILENCE) if number % 2 else None
    while not STOP.exists():
        Message(plan, "sender" if connection is None else "keeper", plan["short"], connection).call()


def main() -> None:
    plan = json.loads(sys.argv[1])
    STOP.unlink(missing_ok=True)
    callers = [threading.Thread(target=_send_until_stopped, args=(plan, number)) for number in range(plan["senders"])]
    callers += [threading.Thread(target=Message(plan, "call", text).call) for text in plan["calls"]]
    callers += [threading.Thread(target=Message(plan, "stream", text).stream) for text in plan["streams"]]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


if __name__ == "__main__":
    main()
