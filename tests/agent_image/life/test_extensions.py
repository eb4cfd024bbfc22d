"""Extension data beside the answer, on every wire, matches the declarations of the compiled card."""

import json
import re

import pytest
from tests.support.agent.reports import COST
from tests.support.agent.waiter import LEARNING
from tests.support.waiting import await_until

from fleetwright_a2a.extensions import AGENT_INBOX, CALL_PATH, KAGENT_HITL
from fleetwright_agent.protocol.frames import Text, TurnDone
from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.build.card import agent_card

EXT = "https://proto-labs.ai/a2a/ext/"
TOOL_CALL = f"{EXT}tool-call-v1"
MIME = "application/vnd.protolabs.{}+json"
URI = re.compile(r"https://(?:proto-labs\.ai/a2a/ext|fleetwright\.dev/a2a|kagent\.dev/extensions)/[a-z0-9/-]+")
ASKS = {"askHuman": True, "approvals": {"tools": ["house__charge_card"]}}
OURS = "https://fleetwright.dev/a2a/"


async def stream(guest, message, text):
    events = guest.events("SendStreamingMessage", message(text))
    return [event async for event in events]


def messages(events):
    statuses = [event["statusUpdate"]["status"] for event in events if "statusUpdate" in event]
    return [status["message"] for status in statuses if "message" in status]


def told(events):
    """Return the listed extension URIs, after a check that they equal the URIs in the metadata."""
    sources = [*messages(events), *(e["artifactUpdate"]["artifact"] for e in events if "artifactUpdate" in e)]
    listed = {uri for source in sources for uri in source.get("extensions", ())}
    carried = {uri for source in sources for uri in source.get("metadata", {}) if uri.startswith(EXT)}
    assert listed == carried
    return listed


def data(source, name):
    found = (part for part in source["parts"] if part.get("metadata", {}).get("mimeType") == MIME.format(name))
    return [part["data"] for part in found]


@pytest.mark.parametrize(
    "extensions",
    [
        pytest.param({}, id="as it is when nothing is said"),
        pytest.param({"toolCalls": False}, id="without the calls of tools"),
        pytest.param({"reasoning": True, "dataParts": True}, id="with everything"),
    ],
)
async def test_extensions_match_the_card_and_their_activation(agent, message, extensions):
    known = declared({"a2a": {"extensions": extensions}}) & {COST, TOOL_CALL}
    async with agent(extensions=extensions) as guest:
        events = await stream(guest, message, "Book table for 4 [[think:3]]")
        assert told(events) == known
        async with guest.http() as http:
            asked = {"A2A-Extensions": f"{COST}, {TOOL_CALL}, urn:other"}
            said = {method: message("Hello there") for method in ("SendMessage", "SendStreamingMessage")}
            for method, params in {**said, "GetTask": {"id": "of nobody"}}.items():
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = await http.post("/a2a", json=body, headers=asked)
                assert set(answer.headers["a2a-extensions"].split(", ")) == known


def declared(spec):
    agent = {"metadata": {"name": "echo", "namespace": "team"}, "spec": {"description": "d", **spec}}
    card = agent_card(parse_agent(agent), url="http://echo", skills=[])
    return {extension["uri"] for extension in card["capabilities"]["extensions"]}


def seen_in(said):
    """Return every extension URI that occurs anywhere in the output. A key below a URI belongs to its extension."""
    return {re.sub(r"(/v\d+)/.*", r"\1", uri) for uri in URI.findall(json.dumps(said))}


class Talker:
    """A turn whose answer exceeds the size limit of an artifact."""

    async def run(self, request, hooks):
        yield Text("x" * 5 * 1024 * 1024)
        yield TurnDone("x" * 5 * 1024 * 1024)

    async def aclose(self):
        return None


async def everything(guest, message):
    """Return the output of every situation that a caller can cause."""
    said = [await stream(guest, message, "Book table for 4")]
    task = await guest.say("Book table for 2", metadata={CALL_PATH: ["team/first"]})
    said.append(await guest.get(task))
    for ask in ("Ask the human about dessert", "Charge the card 30"):
        asked = await guest.say(ask)
        answered = await guest.call("SendMessage", message("no", taskId=asked["id"]))
        said += [asked, answered, await guest.get(asked)]
    left = await guest.say("Charge the card 40")
    said.append(await guest.call("CancelTask", {"id": left["id"]}))
    said.append(await guest.say("Book table for 4 [[fail:malformed]]"))
    said.append(await guest.say('Give a task to the sub-agent waiter: "Book table for 4"'))
    async with guest.http() as http:
        # The extensions for other clients are emitted only on request.
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("Charge the card 50")}
        activated = (
            await http.post("/a2a", json=body, headers={"A2A-Extensions": f"{KAGENT_HITL}, {AGENT_INBOX}"})
        ).json()
        said.append(activated["result"]["task"]["status"])
        params = {"id": "mine", "message": {"role": "user", "parts": [{"type": "text", "text": "Hello there"}]}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": params}
        said.append((await http.post("/a2a", json=body, headers={"A2A-Version": "0.1"})).json())
    said.append(await guest.call("GetTask", {"id": "mine"}))
    return said


@pytest.mark.parametrize(
    ("spec", "config", "ours"),
    [
        pytest.param(
            ASKS,
            ASKS,
            {"ask/v1", "answer/v1", "agent-inbox/v1", "chosen-id/v1", "call-path/v1", "truncated/v1"},
            id="of an agent that asks people",
        ),
        pytest.param(
            {"a2a": {"dialects": ["1.0"], "extensions": {"toolCalls": False}}},
            {"dialects": ["1.0"], "extensions": {"toolCalls": False}, "askHuman": False},
            {"call-path/v1", "truncated/v1"},
            id="of one that asks nobody, tells no calls and speaks one version",
        ),
        pytest.param(
            {"a2a": {"dialects": ["1.0"]}, **LEARNING},
            {"dialects": ["1.0"], "askHuman": False, **LEARNING},
            {"call-path/v1", "truncated/v1"},
            id="of one that learns from its sub-agents",
        ),
    ],
)
async def test_extensions_match_the_card_in_every_situation(agent, peer, message, spec, config, ours):
    async with agent(**config) as guest:
        seen = seen_in(await everything(guest, message))
    async with peer(turn=Talker(), **config) as talker:
        seen |= seen_in((await talker.say("Speak."))["artifacts"][0]["metadata"])
    assert seen == declared(spec)
    assert {uri.removeprefix(OURS) for uri in seen if uri.startswith(OURS)} == ours


async def test_messages_and_artifacts_list_their_extensions(agent, message):
    async with agent(**ASKS) as guest:
        asked = await guest.say("Charge the card 30")
        answered = await guest.say("no", taskId=asked["id"])
    holders = [asked["status"]["message"], *answered["history"], *answered["artifacts"]]
    carried = [{uri for uri in holder.get("metadata", {}) if URI.fullmatch(uri)} for holder in holders]
    assert [set(holder.get("extensions", ())) for holder in holders] == carried
    assert any(carried)


async def test_tool_call_extension_reports_start_and_end(agent, message):
    async with agent() as guest:
        events = await stream(guest, message, "Book table for 4")
    started, ended = (m["metadata"][TOOL_CALL] for m in messages(events) if TOOL_CALL in m.get("metadata", {}))
    assert started["phase"] == "started"
    assert (started["name"], started["args"]) == ("house__book_table", '{"guests": 4}')
    assert ended["phase"] == "completed"
    assert ended["toolCallId"] == started["toolCallId"]
    assert (ended["result"], ended["outputChars"]) == ("A table for 4 is booked.", 24)
    assert not any(data(m, "tool-call-v1") for m in messages(events))


async def test_tool_call_extension_reports_the_error(agent, message):
    async with agent(limits={"maxToolCalls": 1}) as guest:
        events = await stream(guest, message, "Book table for 4, then book table for 5")
    ends = [m["metadata"][TOOL_CALL] for m in messages(events) if TOOL_CALL in m.get("metadata", {})]
    assert ends[-1]["phase"] == "failed"
    assert "the limit of 1 tool calls is reached" in ends[-1]["error"]


async def test_data_parts_repeat_extension_metadata(agent, message):
    async with agent(extensions={"dataParts": True}) as guest:
        events = await stream(guest, message, "Book table for 4")
        for m in messages(events):
            assert data(m, "tool-call-v1") == [m["metadata"][TOOL_CALL]]
        artifact = [e["artifactUpdate"]["artifact"] for e in events if "artifactUpdate" in e][-1]
        assert data(artifact, "cost-v1") == [artifact["metadata"][COST]]
        assert artifact["parts"][0]["text"] == "Here is what I found. A table for 4 is booked."


async def test_extension_data_is_in_the_metadata_alone_by_default(agent, message):
    async with agent() as guest:
        events = await stream(guest, message, "Book table for 4")
    artifact = [e["artifactUpdate"]["artifact"] for e in events if "artifactUpdate" in e][-1]
    assert artifact["metadata"][COST]["success"] is True
    assert [m for m in messages(events) if data(m, "tool-call-v1")] == []
    assert data(artifact, "cost-v1") == []


@pytest.mark.parametrize(
    ("text", "has_answer"),
    [
        pytest.param("Hello [[fail:401]]", False, id="of a task without an answer, in the message of its status"),
        pytest.param("Book table for 4 [[fail:malformed]]", True, id="of a task with an answer, in its artifact"),
    ],
)
async def test_data_parts_repeat_the_cost_of_a_failed_task(agent, states, text, has_answer):
    async with agent(extensions={"dataParts": True}) as guest:
        task = await guest.say(text)
    assert states(task) == "failed"
    holder = task["artifacts"][0] if has_answer else task["status"]["message"]
    assert data(holder, "cost-v1") == [holder["metadata"][COST]]


@pytest.mark.parametrize(
    ("extensions", "thoughts"),
    [
        pytest.param({"reasoning": True}, 2, id="where it is wanted, one message for each run of thoughts"),
        pytest.param({}, 0, id="what a model thinks is its own where nobody asked for it"),
    ],
)
async def test_reasoning_is_reported_apart_from_the_answer(agent, message, extensions, thoughts):
    async with agent(extensions=extensions) as guest:
        events = await stream(guest, message, "Book table for 4 [[think:40]]")
    found = [thought for m in messages(events) for thought in data(m, "reasoning-v1")]
    assert len(found) == thoughts
    assert all(thought["text"].split() == [f"thought{i}" for i in range(40)] for thought in found)
    texts = [p["text"] for e in events if "artifactUpdate" in e for p in e["artifactUpdate"]["artifact"]["parts"]]
    assert not any("thought" in text for text in texts)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param("Good morning to all of you", "completed", id="of a task that completed"),
        pytest.param("Book table for 4 [[fail:malformed]]", "failed", id="of a task that failed"),
    ],
)
async def test_cost_extension_is_present_at_every_termination(agent, states, text, state):
    async with agent() as guest:
        task = await guest.say(text)
    assert states(task) == state
    cost = task["artifacts"][0]["metadata"][COST]
    assert cost["success"] is (state == "completed")
    assert cost["usage"]["output_tokens"] > 0


async def test_cost_extension_is_present_on_a_cancelled_task(agent, states, house):
    async with agent() as guest:
        task = await guest.say("Cook a dish of 3 portions", now=True)
        await await_until(lambda: house.ledger, "the tool has its effect")
        ended = (await guest.call("CancelTask", {"id": task["id"]}))["result"]
    assert states(ended) == "canceled"
    assert ended["artifacts"][0]["metadata"][COST]["success"] is False


async def test_stalled_turn_fails_with_its_last_activity(agent, states, house):
    async with agent(limits={"stallSeconds": 4}) as guest:
        slow = await guest.say("Hello there, my friend of old. [[pause:0.8]]")
        assert states(slow) == "completed"
        stuck = await guest.say("Cook a dish of 3 portions")
    assert states(stuck) == "failed"
    assert stuck["status"]["message"]["metadata"]["reason"] == "stall"
    text = stuck["status"]["message"]["parts"][0]["text"]
    assert text == "Nothing happened for 4 seconds; the last activity was: house__cook_dish was called."


async def test_task_end_is_logged_with_the_trace_of_its_request(agent, message, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    params = message("Hello there", metadata={"a2a.trace": {"traceId": "0af7", "spanId": "b7ad"}})
    async with agent() as guest:
        await guest.call("SendMessage", params | {"metadata": {"a2a.trace": {"traceId": "beef"}}})
    (line,) = (record for record in caplog.records if record.message == "task rests")
    assert (line.traceId, hasattr(line, "spanId")) == ("beef", False)
