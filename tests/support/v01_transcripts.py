"""Recorded conversations with clients of A2A 0.1, for the tests of the agent and of the gateway's translation.

Times are replaced by `T` before responses are compared.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

SESSION: Final = "8f01f3d172cd4396a0e535ae8aec6687"
SCRIPT: Final[dict[str, Sequence[str]]] = {
    "How many desks are in stock?": ["There are 14 desks in stock."],
    "When can a desk be sent?": ["ask: To which country, and shall it be set up there?"],
    "Norway": ["A desk to Norway can be sent on Thursday."],
    "What do 3 desks weigh?": [
        "say: Looking up the weight of a desk...",
        "say: Adding the packaging...",
        "One desk weighs 31.5 kg with its packaging. Three of them weigh 94.5 kg.",
    ],
}
"""The script of the agent, by message: `ask` pauses with a question, `say` reports progress, other lines answer."""
_TIME = re.compile(r'"timestamp": ?"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"')


@dataclass(frozen=True)
class Exchange:
    request: Mapping[str, Any]
    responses: Sequence[Any]
    """The one response to `tasks/send`, or the events of a stream."""

    @property
    def is_stream(self) -> bool:
        return bool(self.request["method"] == "tasks/sendSubscribe")


def without_times(text: str) -> Any:
    """Return a JSON document whose times are `T`. Every status must have one."""
    assert '"status"' not in text or _TIME.search(text), text
    return json.loads(_TIME.sub('"timestamp": "T"', text))


def _said(text: str, role: str = "agent") -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "text": text}]}


def _status(state: str, text: str = "") -> dict[str, Any]:
    return {"state": state, **({"message": _said(text)} if text else {}), "timestamp": "T"}


def _answer(text: str) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": text}], "index": 0}


def _task(identity: str, status: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": identity, "sessionId": SESSION, "status": status, **more, "history": []}


def _exchange(method: str, request_id: int, task: str, text: str, *results: Mapping[str, Any]) -> Exchange:
    params = {"id": task, "sessionId": SESSION, "acceptedOutputModes": ["text"], "message": _said(text, "user")}
    request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return Exchange(request, [{"jsonrpc": "2.0", "id": request_id, "result": each} for each in results])


TRANSCRIPTS: Final[Mapping[str, Sequence[Exchange]]] = {
    "immediate answer": [
        _exchange(
            "tasks/send",
            11,
            "129",
            "How many desks are in stock?",
            _task("129", _status("completed"), artifacts=[_answer("There are 14 desks in stock.")]),
        ),
    ],
    "question to the caller": [
        _exchange(
            "tasks/send",
            10,
            "130",
            "When can a desk be sent?",
            _task("130", _status("input-required", "To which country, and shall it be set up there?")),
        ),
        _exchange(
            "tasks/send",
            10,
            "130",
            "Norway",
            _task("130", _status("completed"), artifacts=[_answer("A desk to Norway can be sent on Thursday.")]),
        ),
    ],
    "stream": [
        _exchange(
            "tasks/sendSubscribe",
            12,
            "131",
            "What do 3 desks weigh?",
            {"id": "131", "status": _status("working", "Looking up the weight of a desk..."), "final": False},
            {"id": "131", "status": _status("working", "Adding the packaging..."), "final": False},
            {"id": "131", "artifact": _answer(SCRIPT["What do 3 desks weigh?"][-1]) | {"append": False}},
            {"id": "131", "status": _status("completed"), "final": True},
        ),
    ],
}
