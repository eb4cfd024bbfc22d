"""The trace of a task, over A2A: spans of the caller, the agent and the model, sent to a collector."""

import json

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from tests.support.agent.collector import Collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def by_name(collector):
    return {span.name: span for span in collector.spans}


async def sent(guest, header):
    """Make a call with the `traceparent` header, as tracing clients do."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Book table for 2"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with guest.http() as http:
        return (await http.post("/a2a", json=body, headers={"traceparent": header})).json()["result"]["task"]


async def test_trace_context_of_a_caller_reaches_the_model(agent, model):
    collector, (recorder, endpoint) = Collector(), model
    async with collector.serving() as url:
        async with agent(model=endpoint, telemetry={"endpoint": url, "samplePercent": 1}) as guest:
            await sent(guest, f"00-{TRACE}-{SPAN}-01")
        spans = by_name(collector)
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    task, chat, tool = (
        spans[name] for name in ("invoke_agent team/echo", "chat offline", "execute_tool house__book_table")
    )
    assert task.parent_span_id.hex() == SPAN
    assert {chat.parent_span_id, tool.parent_span_id} == {task.span_id}
    chats = [span for span in collector.spans if span.name == "chat offline"]
    assert recorder.parents == [f"00-{TRACE}-{span.span_id.hex()}-01" for span in chats]


NONE = [
    pytest.param(f"00-{TRACE}-{SPAN}-00", id="its sender records nothing"),
    pytest.param(f"ff-{TRACE}-{SPAN}-01", id="a version that is none"),
    pytest.param("00-zz", id="no header of that kind"),
    pytest.param("", id="empty"),
]


@pytest.mark.parametrize("header", NONE)
async def test_trace_starts_at_the_agent_without_a_valid_header(agent, model, header):
    collector, (recorder, endpoint) = Collector(), model
    async with collector.serving() as url, agent(model=endpoint, telemetry={"endpoint": url}) as guest:
        await sent(guest, header)
    task = by_name(collector)["invoke_agent team/echo"]
    assert (task.parent_span_id, task.trace_id.hex() == TRACE) == (b"", False)
    assert all(parent.startswith(f"00-{task.trace_id.hex()}-") for parent in recorder.parents)


async def test_trace_context_is_not_sent_without_a_collector(agent, model):
    recorder, endpoint = model
    async with agent(model=endpoint) as guest:
        await sent(guest, f"00-{TRACE}-{SPAN}-01")
    assert set(recorder.parents) == {""}


async def test_model_span_records_compaction_of_its_prompt(agent, model):
    collector, (_, endpoint) = Collector(), model
    early = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
    async with collector.serving() as url:
        async with agent(model=endpoint, telemetry={"endpoint": url}, compaction=early) as guest:
            context = (await guest.say("Tell me a story. [[long:250]]"))["contextId"]
            for number in range(8):
                await guest.say(f"Tell me a story, number {number}. [[long:250]]", contextId=context)
            assert await guest.metric('compactions_total{method="summary",outcome="ok"') >= 1
            summaries = await guest.metric("compaction_llm_tokens_total")
        chats = [span for span in collector.spans if span.name == "chat offline"]
    told = ["gen_ai.conversation.compacted" in {each.key for each in span.attributes} for span in chats]
    assert (told[0], told[-1]) == (False, True)
    assert summaries
    assert len(chats) > 9, "summaries have spans too"


async def test_span_omits_a_tool_name_that_the_model_invented(agent, serve):
    asked: list[object] = []
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "my_secret_is_x", "arguments": "{}"}}

    async def answer(request):
        asked.append(await request.json())
        delta = {"tool_calls": [call]} if len(asked) == 1 else {"content": "Done."}
        choice = {"index": 0, "delta": delta, "finish_reason": "stop"}
        chunk = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk", "choices": [choice]}
        return Response(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n", media_type="text/event-stream")

    collector = Collector()
    with serve(Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])) as port:
        async with collector.serving() as url:
            model = {"name": "m", "baseUrl": f"http://127.0.0.1:{port}/v1", "contextWindow": 8000}
            limits = {"maxOutputTokens": 1000, "timeoutSeconds": 30}
            async with agent(model={**model, **limits}, telemetry={"endpoint": url}) as guest:
                await guest.say("Hello")
            assert len(asked) == 2
    assert "execute_tool (unknown)" in by_name(collector)
    assert all("my_secret_is_x" not in str(span) for span in collector.spans)
