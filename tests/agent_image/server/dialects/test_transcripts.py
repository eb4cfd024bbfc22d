"""Conversations with clients of A2A 0.1: responses must equal the recorded transcripts, except for timestamps."""

import json
import re
from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]
SESSION = "8f01f3d172cd4396a0e535ae8aec6687"
SCRIPT = {
    "How many desks are in stock?": ["There are 14 desks in stock."],
    "When can a desk be sent?": ["ask: To which country, and shall it be set up there?"],
    "Norway": ["A desk to Norway can be sent on Thursday."],
    "What do 3 desks weigh?": [
        "say: Looking up the weight of a desk...",
        "say: Adding the packaging...",
        "One desk weighs 31.5 kg with its packaging. Three of them weigh 94.5 kg.",
    ],
}
_TIME = re.compile(r'"timestamp": ?"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"')


def timeless(text: str) -> Any:
    assert '"status"' not in text or _TIME.search(text), text
    return json.loads(_TIME.sub('"timestamp": "T"', text))


def send(task_id: str, text: str) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": task_id, "sessionId": SESSION, "acceptedOutputModes": ["text"], "message": message}


def said(text: str) -> dict[str, Any]:
    return {"role": "agent", "parts": [{"type": "text", "text": text}]}


async def test_v01_transcript_of_an_immediate_answer(open_door: Open, written: Any, raw: Any) -> None:
    door = await open_door(executor=written(SCRIPT))
    async with raw(door) as caller:
        answer = await caller.call("tasks/send", send("129", "How many desks are in stock?"), request_id=11)
    assert timeless(json.dumps(answer)) == {
        "jsonrpc": "2.0",
        "id": 11,
        "result": {
            "id": "129",
            "sessionId": SESSION,
            "status": {"state": "completed", "timestamp": "T"},
            "artifacts": [{"parts": [{"type": "text", "text": "There are 14 desks in stock."}], "index": 0}],
            "history": [],
        },
    }


async def test_v01_transcript_of_a_counter_question(open_door: Open, written: Any, raw: Any) -> None:
    door = await open_door(executor=written(SCRIPT))
    async with raw(door) as caller:
        asked = await caller.call("tasks/send", send("130", "When can a desk be sent?"), request_id=10)
        answer = await caller.call("tasks/send", send("130", "Norway"), request_id=10)
    question = "To which country, and shall it be set up there?"
    assert timeless(json.dumps(asked)) == {
        "jsonrpc": "2.0",
        "id": 10,
        "result": {
            "id": "130",
            "sessionId": SESSION,
            "status": {"state": "input-required", "message": said(question), "timestamp": "T"},
            "history": [],
        },
    }
    assert timeless(json.dumps(answer)) == {
        "jsonrpc": "2.0",
        "id": 10,
        "result": {
            "id": "130",
            "sessionId": SESSION,
            "status": {"state": "completed", "timestamp": "T"},
            "artifacts": [
                {"parts": [{"type": "text", "text": "A desk to Norway can be sent on Thursday."}], "index": 0}
            ],
            "history": [],
        },
    }


async def test_v01_transcript_of_a_stream(open_door: Open, written: Any, raw: Any) -> None:
    door = await open_door(executor=written(SCRIPT))
    async with raw(door) as caller:
        told = await caller.stream("tasks/sendSubscribe", send("131", "What do 3 desks weigh?"), request_id=12)

    def status(state: str, *, final: bool, **more: Any) -> dict[str, Any]:
        return {"id": "131", "status": {"state": state, **more, "timestamp": "T"}, "final": final}

    answer = "One desk weighs 31.5 kg with its packaging. Three of them weigh 94.5 kg."
    wanted = [
        status("working", final=False, message=said("Looking up the weight of a desk...")),
        status("working", final=False, message=said("Adding the packaging...")),
        {"id": "131", "artifact": {"parts": [{"type": "text", "text": answer}], "index": 0, "append": False}},
        status("completed", final=True),
    ]
    assert [timeless(text) for text in told] == [{"jsonrpc": "2.0", "id": 12, "result": each} for each in wanted]
