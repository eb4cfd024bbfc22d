"""Tool calls as OpenAI-compatible providers stream them, and provider data that later requests must return."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from tests.support.http_server import serve_in_thread

from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.protocol.frames import ToolEnd
from fleetwright_agent.turn.providers.tool_call_deltas import ToolCallDeltas

SIGNED = {"google": {"thought_signature": "c2lnbmVk"}}


def piece(identity: str | None = "call_a", arguments: str = '{"order": "A-1001"}', **more: Any) -> dict[str, Any]:
    name = more.pop("name", "orders__look_up_order")
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


@contextmanager
def model(
    *deltas: dict[str, Any], finish: str | None = "tool_calls", to: str = ""
) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Start a model that streams the deltas to the first request that ends with `to`, and records all requests."""
    asked: list[dict[str, Any]] = []
    calls = True
    frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk"}

    async def answer(request: Request) -> StreamingResponse:
        nonlocal calls
        asked.append(await request.json())
        now = calls and str(asked[-1]["messages"][-1]["content"]).endswith(to)
        calls = calls and not now
        said = [*deltas] if now else [{"content": "Done."}]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in said]
        if (why := finish if now else "stop") is not None:
            choices.append({"index": 0, "delta": {}, "finish_reason": why})
        events = [f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n" for choice in choices]
        return StreamingResponse(iter([*events, "data: [DONE]\n\n"]), media_type="text/event-stream")

    with serve_in_thread(Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])) as port:
        yield asked, port


@pytest.fixture
def desk(config, orders_port):
    def of(port: int, **more: Any) -> Any:
        servers = [{"name": "orders", "url": f"http://127.0.0.1:{orders_port}/mcp"}]
        return config(model={"baseUrl": f"http://127.0.0.1:{port}/v1", **more}, mcpServers=servers)

    return of


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([piece(), piece("call_b")], id="no numbers"),
        pytest.param([piece(index=0), piece("call_b", index=0)], id="one number for all"),
        pytest.param([piece(index=1), piece("call_b", index=2)], id="numbers that begin with one"),
        pytest.param(
            [piece(arguments="", index=0), piece("made-up", '{"order": "A-1001"}', name=None, index=0),
             piece("call_b", index=1)],
            id="another identifier for each piece",
        ),
    ],
)  # fmt: skip
async def test_tool_call_deltas_are_separated_for_any_numbering(desk, talking, pieces):
    with model(*({"tool_calls": [each]} for each in pieces)) as (asked, port):
        async with talking(desk(port)) as talk:
            said = await talk.say("Look up A-1, twice")
    assert said.failure is None
    assert sorted((end.call_id, end.ok) for end in said.of(ToolEnd)) == [("call_a", True), ("call_b", True)]
    assert [call["id"] for call in asked[1]["messages"][-3]["tool_calls"]] == ["call_a", "call_b"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("call_0", "call_0", id="it counts anew with each answer"),
        pytest.param(None, None, id="it gives none"),
    ],
)
async def test_tool_call_ids_are_unique_within_a_conversation(desk, talking, first, second):
    order = '{"order": "A-100%d"}'
    with model({"tool_calls": [piece(first, order % 1, extra_content=SIGNED)]}) as (asked, port):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1001")
    with model({"tool_calls": [piece(second, order % 2, extra_content=SIGNED)]}) as (asked, port):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1002")
    calls = [call for message in asked[-1]["messages"] for call in message.get("tool_calls", ())]
    results = {m["tool_call_id"]: m["content"] for m in asked[-1]["messages"] if m["role"] == "tool"}
    assert len({call["id"] for call in calls} - {None}) == 2
    for call in calls:
        assert json.loads(call["function"]["arguments"])["order"] in results[call["id"]]


async def test_provider_call_data_is_returned_for_a_renamed_call(desk, talking):
    signed = [{"google": {"thought_signature": text}} for text in ("b25l", "dHdv")]
    with model({"tool_calls": [piece("call_0", extra_content=signed[0])]}, to="once") as (asked, port):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1001, once")
    with model({"tool_calls": [piece("call_0", extra_content=signed[1])]}, to="again") as (asked, port):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1001, again")
    calls = [call for message in asked[-1]["messages"] for call in message.get("tool_calls", ())]
    # Each signature returns only to its own endpoint, and these calls came from two endpoints.
    assert [call.get("extra_content") for call in calls] == [None, signed[1]]


async def test_provider_call_data_is_returned_after_a_restart(desk, talking):
    calls = [piece(index=0, extra_content=SIGNED), piece("call_b", index=0)]
    with model({"tool_calls": calls[:1]}, {"tool_calls": calls[1:]}) as (asked, port):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1, twice")
        async with talking(desk(port)) as talk:
            await talk.say("And now?")
    for request in asked[1:]:
        (called,) = (message["tool_calls"] for message in request["messages"] if message.get("tool_calls"))
        assert [call.get("extra_content") for call in called] == [SIGNED, None]


async def test_provider_call_data_survives_a_compaction(desk, talking):
    policy = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
    with model({"tool_calls": [piece(extra_content=SIGNED)]}, to="Look up A-1001") as (asked, port):
        async with talking(desk(port).model_copy(update={"compaction": Compaction.model_validate(policy)})) as talk:
            for number in range(4):
                await talk.say(f"Story {number}: " + "the sea and the ships and the wind " * 70)
            await talk.say("Look up A-1001")
            await talk.say("And now?")
            assert talk.count("compactions_total", trigger="tokens", method="summary", outcome="ok") >= 1
    newest = asked[-1]["messages"]
    assert not any("Story 0" in str(message["content"])[:40] for message in newest), "compaction removed it"
    (called,) = (message["tool_calls"] for message in newest if message.get("tool_calls"))
    assert called[0]["extra_content"] == SIGNED


async def test_provider_call_data_is_not_sent_to_another_provider(desk, talking):
    with model({"tool_calls": [piece(extra_content=SIGNED)]}) as (_, port), model({"content": "Hi."}) as (other, there):
        async with talking(desk(port)) as talk:
            await talk.say("Look up A-1")
        async with talking(desk(there)) as talk:
            await talk.say("And now?")
    assert "tool_calls" in json.dumps(other[0])
    assert "extra_content" not in json.dumps(other[0])


@pytest.mark.parametrize(
    ("finish", "words"),
    [
        pytest.param("length", "maxOutputTokens", id="the limit of its tokens"),
        pytest.param(None, "not valid JSON", id="no end"),
    ],
)
async def test_tool_call_cut_before_its_arguments_is_malformed(desk, talking, finish, words):
    """A call that is cut before its arguments is malformed; it is not a call without arguments."""
    cut = piece(arguments="", name="orders__list_orders")
    with model({"tool_calls": [cut]}, finish=finish) as (asked, port):
        async with talking(desk(port, retries=0)) as talk:
            said = await talk.say("List them")
    assert len(asked) == 1
    assert said.of(ToolEnd) == []
    assert said.failure.reason == "model_malformed_tool_call"
    assert words in said.failure.message


async def test_malformed_tool_call_is_retried_at_once(desk, talking):
    with model({"tool_calls": [piece(arguments='{"order": "A')]}) as (asked, port):
        async with talking(desk(port)) as talk:
            said = await talk.say("Look it up")
            waits = talk.waits
    assert said.answer == "Done."
    assert (len(asked), waits) == (2, [0.0])
    assert "tool_calls" not in json.dumps(asked[1]["messages"]), "the conversation excludes the broken call"


def joined(*deltas):
    """Return the names and arguments of the calls in these deltas, each a list of pieces."""
    reader, calls = ToolCallDeltas(), {}
    for delta in deltas:
        for found in reader.number_pieces(delta):
            name, arguments = calls.get(found["index"], ("", ""))
            function = found["function"]
            calls[found["index"]] = (name + (function["name"] or ""), arguments + (function["arguments"] or ""))
    return list(calls.values())


def part(name=None, arguments=None, **more):
    return {"function": {"name": name, "arguments": arguments}, **more}


TWO = [("add", '{"a": 1}'), ("add", '{"a": 2}')]


@pytest.mark.parametrize(
    ("deltas", "wanted"),
    [
        pytest.param([[part("add", '{"a": 1}'), part("add", '{"a": 2}')]], TWO, id="two in one delta without index"),
        pytest.param(
            [[part("add", '{"a": 1}', index=0)], [part("add", '{"a": 2}', index=0)]], TWO, id="two at one index"
        ),
        pytest.param(
            [[part("add", '{"a"', index=0)], [part("add", ": 1}", index=0)]], TWO[:1], id="a name in every delta"
        ),
        pytest.param(
            [[part("add", '{"a": 1}', id=7)], [part("add", '{"a": 2}', id=8)]], TWO, id="ids that are numbers"
        ),
        pytest.param(
            [[part("add", '{"a": "}', index=0)], [part("add", '"}', index=0)]],
            [("add", '{"a": "}"}')],
            id="a brace inside a text",
        ),
        pytest.param(
            [[part("add", '{"a": "\\', index=0)], [part("add", '"}"}', index=0)], [part("add", "{}", index=0)]],
            [("add", '{"a": "\\"}"}'), ("add", "{}")],
            id="an escaped quote in two pieces",
        ),
        pytest.param(
            [[part("add", "", index=0)], [part("take", "", index=0)]],
            [("add", ""), ("take", "")],
            id="another name before any arguments",
        ),
        pytest.param([[part("add", {"a": 1})]], TWO[:1], id="arguments as an object"),
        pytest.param([[part(3, 5), {"function": "x"}, {}]], [("", "5")], id="pieces of other shapes"),
    ],
)  # fmt: skip
def test_calls_are_told_apart_without_ids(deltas, wanted):
    assert joined(*deltas) == wanted
