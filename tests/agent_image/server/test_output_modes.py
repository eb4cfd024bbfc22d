"""Accepted output modes: checked against the card before any work, and applied to every output."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fleetwright_a2a.card import parse_card
from fleetwright_agent.protocol.frames import Frame, Result, Text, TurnDone, TurnRequest
from fleetwright_agent.server.tasks.output_modes import OutputModes

Open = Callable[..., Any]
ORDER = "application/vnd.shop.order+json"
TEXT = {"kind": "text", "text": "hello"}


async def typed(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text("Two eggs.")
    if request.metadata.get("skillHint") == "order":
        yield Result({"eggs": 2}, ORDER)
    yield TurnDone("Two eggs.")


@pytest.fixture
def with_skill(mounted: Any) -> None:
    """Write a card with a skill whose output may also be data."""
    card = mounted.layout.card_file
    document = json.loads(card.read_text())
    document["defaultOutputModes"] = ["text/markdown", "text/plain"]
    skill = {"id": "order", "name": "order", "description": "Orders.", "tags": ["shop"], "outputModes": [ORDER]}
    mounted.write(card, document | {"skills": [*document["skills"], skill]})


def said(modes: list[str], **metadata: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return {"message": message, "configuration": {"acceptedOutputModes": modes}, "metadata": metadata}


BY_DIALECT = [
    pytest.param(
        "1.0",
        "SendMessage",
        {
            "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]},
            "configuration": {"acceptedOutputModes": ["image/png"]},
        },
        id="1.0",
    ),
    pytest.param(
        "0.3",
        "message/send",
        {
            "message": {"kind": "message", "messageId": "m", "role": "user", "parts": [TEXT]},
            "configuration": {"acceptedOutputModes": ["image/png"]},
        },
        id="0.3",
    ),
    pytest.param(
        "0.1",
        "tasks/send",
        {
            "id": "t",
            "message": {"role": "user", "parts": [{"type": "text", "text": "hello"}]},
            "acceptedOutputModes": ["image/png"],
        },
        id="0.1",
    ),
]


@pytest.mark.parametrize(("version", "method", "params"), BY_DIALECT)
async def test_unsupported_output_modes_are_refused_before_any_work(
    open_door: Open, version: str, method: str, params: dict[str, Any]
) -> None:
    door = await open_door()
    async with door.http() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await http.post("/a2a", json=body, headers={"A2A-Version": version})).json()
    assert answer["error"]["code"] == -32005
    assert "acceptedOutputModes: this agent gives text/plain" in answer["error"]["message"]
    assert door.turn.requests == []


@pytest.mark.usefixtures("with_skill")
async def test_output_modes_of_the_extended_card_are_accepted(mounted: Any, open_door: Open) -> None:
    whole = json.loads(mounted.layout.card_file.read_text())
    mounted.write(mounted.layout.extended_card_file, whole)
    mounted.write(mounted.layout.card_file, whole | {"skills": []})
    door = await open_door(typed)
    async with door.http() as http:
        taken = await http.post("/a2a/message:send", json=said([ORDER], skillHint="order"))
        refused = await http.post("/a2a/message:send", json=said(["image/png"], skillHint="order"))
    assert taken.status_code == 200, taken.text
    assert refused.status_code >= 400


async def test_unsupported_output_modes_are_refused_over_rest(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        answer = await http.post("/a2a/message:send", json=said(["image/png"]))
    assert answer.status_code >= 400
    assert "this agent gives text/plain" in answer.json()["error"]["message"]
    assert door.turn.requests == []


@pytest.mark.usefixtures("with_skill")
@pytest.mark.parametrize(
    ("modes", "hint", "wanted"),
    [
        pytest.param([], "order", ["text", "data"], id="who says nothing takes everything"),
        pytest.param(["*/*"], "order", ["text", "data"], id="so does who says so"),
        pytest.param(["text/plain", ORDER], "order", ["text", "data"], id="who takes both gets both"),
        pytest.param([f"{ORDER}; charset=utf-8"], "order", ["data"], id="who takes data gets no text"),
        pytest.param(["application/*"], "order", ["data"], id="a range of types is one"),
        pytest.param(["text/plain"], "", ["text"], id="text is text"),
        pytest.param(["TEXT/Markdown"], "", ["text"], id="in whatever case it is asked for"),
        pytest.param(["text", "image/png"], "", ["text"], id="also in the word of older clients"),
        pytest.param([ORDER], "", ["text"], id="the last word is told rather than nothing"),
        pytest.param(["text/plain"], "order", None, id="a skill that gives data alone is not for who takes text"),
        pytest.param(["application/json"], "order", None, id="and another type of data is another type"),
        pytest.param(["text/html"], "", None, id="nor is text any text"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True], ids=["sent", "streamed"])
async def test_output_is_limited_to_the_accepted_modes(
    open_door: Open, modes: list[str], hint: str, wanted: list[str] | None, streamed: bool
) -> None:
    door = await open_door(typed)
    params = said(modes, **({"skillHint": hint} if hint else {}))
    if wanted is None:
        assert (await door.call("SendMessage", params))["error"]["code"] == -32005
        return
    if not streamed:
        task = (await door.call("SendMessage", params))["result"]["task"]
        parts = task["artifacts"][0]["parts"]
    else:
        events = await streamed_from(door, params)
        updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
        kinds = {kind for update in updates for part in update["artifact"]["parts"] for kind in part}
        assert kinds & {"text", "data"} == set(wanted)
        parts = updates[-1]["artifact"]["parts"]
        task = events[0]["task"]
    assert [kind for part in parts for kind in ("text", "data") if kind in part] == wanted
    kept = (await door.get(task["id"]))["artifacts"][0]
    assert len(kept["parts"]) == (2 if hint else 1), "the stored task has the complete output"
    assert "https://proto-labs.ai/a2a/ext/cost-v1" in kept["metadata"]


async def streamed_from(door: Any, params: dict[str, Any]) -> list[dict[str, Any]]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    async with door.http() as http, http.stream("POST", "/a2a", json=body) as response:
        lines = [line async for line in response.aiter_lines() if line.startswith("data: ")]
    return [json.loads(line[6:])["result"] for line in lines]


async def test_accepted_output_modes_are_limited_to_64(open_door: Open) -> None:
    door = await open_door()
    error = (await door.call("SendMessage", said(["text/plain"] * 65)))["error"]
    assert error["code"] == -32602
    assert "acceptedOutputModes has more than 64 entries" in error["message"]


def test_parse_card_without_output_modes_has_none() -> None:
    card = parse_card(b'{"name": "echo", "skills": [{"id": "chat"}]}')
    assert (card.output_modes, dict(card.skill_output_modes)) == (frozenset(), {})
    assert not OutputModes([])
