"""The limit on concurrent turns: order, positions, cancellation, and restarts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import await_until

from fleetwright_agent.config.callers import person
from fleetwright_agent.config.server import Limits
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, TurnDone, TurnRequest
from fleetwright_agent.server.tasks.priorities import Priority, priority_of
from fleetwright_agent.server.tasks.turn_queue import TurnQueue, TurnTicket

Open = Callable[..., Any]


class Gates:
    """A turn that waits until the test opens the gate of its text. It records the order in which turns begin."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}

    def open(self, text: str) -> None:
        self._gates.setdefault(text, asyncio.Event()).set()

    async def __call__(self, request: TurnRequest) -> AsyncIterator[Frame]:
        self.begun.append(request.text)
        if request.text == "ask" and request.reply is None:
            yield InterruptRequest(
                InterruptKind.QUESTION, "Which?", {"question": "Which?"}, identity="i", tool="ask_human"
            )
            return
        await self._gates.setdefault(request.text, asyncio.Event()).wait()
        yield TurnDone("Done.")


@pytest.fixture
def limited(mounted: Any, documents: Any) -> Callable[[int], None]:
    """Set the maximum number of concurrent turns."""

    def limit(most: int) -> None:
        mounted.write(mounted.layout.config_file, documents(limits={"maxConcurrentTurns": most}))

    return limit


async def await_begun(gates: Any, *names: str) -> None:
    """Wait until exactly these turns have begun, in this order."""
    await await_until(lambda: gates.begun == [*names], f"the turns {names} begin in order", shown=lambda: gates.begun)


async def counts(door: Any) -> tuple[int, int]:
    async with door.ops() as ops:
        activity = (await ops.get("/status")).json()["activity"]
    return activity["runningTasks"], activity["waitingTasks"]


async def current_task(door: Any) -> str | None:
    async with door.ops() as ops:
        found: str | None = (await ops.get("/status")).json()["currentTask"]
    return found


async def test_tasks_beyond_the_limit_run_in_order_of_acceptance(open_door: Open, limited: Any) -> None:
    limited(2)
    gates = Gates()
    door = await open_door(gates)
    tasks = [await door.say(text, now=True) for text in "abcd"]
    await await_begun(gates, "a", "b")
    assert await counts(door) == (2, 2)
    assert await current_task(door) == tasks[0]["id"]
    async with door.ops() as ops:
        text = (await ops.get("/metrics")).text
    assert 'fleetwright_turns{phase="running"} 2.0' in text
    assert 'fleetwright_turns{phase="waiting"} 2.0' in text
    gates.open("b")
    await await_begun(gates, "a", "b", "c")
    gates.open("a")
    await door.until(tasks[0]["id"], "TASK_STATE_COMPLETED")
    await await_begun(gates, "a", "b", "c", "d")
    assert await current_task(door) == tasks[2]["id"], "a task whose turn has not begun is not the current one"
    for each in "cd":
        gates.open(each)
    for task in tasks:
        await door.until(task["id"], "TASK_STATE_COMPLETED")
    assert await current_task(door) is None


async def test_default_limit_is_four_turns(open_door: Open) -> None:
    gates = Gates()
    door = await open_door(gates)
    for text in "abcde":
        await door.say(text, now=True)
    await await_until(lambda: len(gates.begun) == 4, "the turns begin in this order", shown=lambda: gates.begun)
    assert await counts(door) == (4, 1)


async def test_waiting_stream_reports_its_position_and_each_change(open_door: Open, limited: Any) -> None:
    limited(1)
    gates = Gates()
    door = await open_door(gates)
    await door.say("a", now=True)
    await door.say("b", now=True)
    message = {"messageId": "c", "role": "ROLE_USER", "parts": [{"text": "c"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    seen: list[Any] = []
    async with door.http() as http, http.stream("POST", "/a2a", json=body) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                seen.append(_seen(json.loads(line.removeprefix("data:"))["result"]))
                if seen[-1] == ("TASK_STATE_SUBMITTED", 2):
                    gates.open("a")
                if seen[-1] == ("TASK_STATE_SUBMITTED", 1):
                    gates.open("b")
                    gates.open("c")
    assert seen == [
        ("TASK_STATE_SUBMITTED", None),
        ("TASK_STATE_SUBMITTED", 2),
        ("TASK_STATE_SUBMITTED", 1),
        ("TASK_STATE_WORKING", None),
        "artifact",
        ("TASK_STATE_COMPLETED", None),
    ]


def _seen(event: dict[str, Any]) -> Any:
    """Return the state and the position of a status."""
    status = (event.get("statusUpdate") or event.get("task") or {}).get("status")
    if status is None:
        return "artifact"
    message = status.get("message", {})
    position = message.get("metadata", {}).get("queuePosition")
    if position is not None:
        assert message["parts"] == [{"text": f"Waiting for a turn; position {position:g} in the queue."}]
    return status["state"], position


async def test_answered_task_waits_for_its_turn_as_working(open_door: Open, limited: Any) -> None:
    limited(1)
    gates = Gates()
    door = await open_door(gates)
    asked = await door.say("ask")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    await door.say("a", now=True)
    await await_begun(gates, "ask", "a")
    await door.say("this one", now=True, taskId=asked["id"])
    task = await door.get(asked["id"])
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    assert task["status"]["message"]["metadata"]["queuePosition"] == 1
    gates.open("a")
    gates.open("this one")
    await door.until(asked["id"], "TASK_STATE_COMPLETED")


async def test_waiting_task_can_be_cancelled_and_makes_room(open_door: Open, limited: Any) -> None:
    limited(1)
    gates = Gates()
    door = await open_door(gates)
    first, second, third = [await door.say(text, now=True) for text in "abc"]
    assert (await door.call("CancelTask", {"id": second["id"]}))["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert await counts(door) == (1, 1)
    assert (await door.call("CancelTask", {"id": first["id"]}))["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    gates.open("c")
    await door.until(third["id"], "TASK_STATE_COMPLETED")
    assert gates.begun == ["a", "c"]


async def test_waiting_task_of_a_busy_conversation_is_overtaken(open_door: Open, limited: Any) -> None:
    limited(2)
    gates = Gates()
    door = await open_door(gates)
    for text, context in (("a", "talk"), ("b", "talk"), ("c", "other")):
        await door.say(text, now=True, contextId=context)
    await await_begun(gates, "a", "c")
    for text in "abc":
        gates.open(text)
    await await_begun(gates, "a", "c", "b")


class Scene:
    """A queue whose turns record their positions."""

    def __init__(self, most: int) -> None:
        self.queue = TurnQueue(most)
        self.tickets: dict[str, TurnTicket] = {}
        self.told: list[tuple[str, int]] = []

    def enter(self, name: str, conversation: str = "", priority: Priority = Priority.NORMAL) -> None:
        def tell(position: int) -> None:
            self.told.append((name, position))

        self.tickets[name] = self.queue.enter(("me", conversation or name), tell, priority=priority)

    def leave(self, name: str) -> None:
        self.tickets[name].leave()

    def granted(self) -> str:
        return "".join(name for name, ticket in self.tickets.items() if ticket.granted)


ORDERS = [
    pytest.param(2, "abcd", "", "ab", id="the first of four"),
    pytest.param(2, "abcd", "b", "abc", id="the next after one has ended"),
    pytest.param(1, "abc", "b", "a", id="a waiting turn that leaves makes no room"),
    pytest.param(1, "abc", "ba", "ac", id="it is passed over"),
    pytest.param(3, "aAb", "", "ab", id="one of a conversation at a time"),
    pytest.param(3, "aAb", "a", "aAb", id="the next of the conversation"),
    pytest.param(2, "aAbc", "a", "aAb", id="it is older than one of another conversation"),
    pytest.param(1, "ab", "aa", "ab", id="leaving twice makes room for one"),
]


@pytest.mark.parametrize(("most", "entered", "left", "granted"), ORDERS)
async def test_turn_queue_grants_the_oldest_turn_that_may_run(most: int, entered: str, left: str, granted: str) -> None:
    """Names that differ only in case belong to one conversation."""
    scene = Scene(most)
    for name in entered:
        scene.enter(name, name.lower())
    for name in left:
        scene.leave(name)
    assert scene.granted() == granted


async def test_turn_queue_reports_positions_only_while_awaited() -> None:
    scene = Scene(1)
    for name in "abc":
        scene.enter(name)
    awaited = asyncio.create_task(scene.tickets["c"].turn())
    await asyncio.sleep(0)
    assert scene.told == [("c", 2)]
    scene.leave("a")
    assert scene.granted() == "ab"
    await await_until(lambda: scene.told == [("c", 2), ("c", 1)], "c learns its places", shown=lambda: scene.told)
    scene.leave("b")
    await awaited
    assert (scene.queue.running, scene.queue.waiting, scene.tickets["c"].position) == (1, 0, 0)


LEVELS = {"h": Priority.HIGH, "n": Priority.NORMAL, "l": Priority.LOW}


@pytest.mark.parametrize(
    ("entered", "order"),
    [
        pytest.param("n1 l2 h3 n4 h5 l6", "n1 h3 h5 n4 l2 l6", id="by priority, then by age"),
        pytest.param("n1 l2:x h3:x n4", "n1 l2 h3 n4", id="an older turn of the conversation comes first"),
        pytest.param("n1 n2 l3:x h4 n5:x", "n1 h4 n2 l3 n5", id="a conversation has its highest priority"),
    ],
)
async def test_turn_queue_grants_turns_by_priority(entered: str, order: str) -> None:
    scene = Scene(1)
    for each in entered.split():
        name, _, conversation = each.partition(":")
        scene.enter(name, conversation, LEVELS[name[0]])
    begun: list[str] = []
    while len(begun) < len(scene.tickets):
        (running,) = [name for name, ticket in scene.tickets.items() if ticket.granted and name not in begun]
        begun.append(running)
        scene.leave(running)
    assert begun == order.split()


async def test_turn_queue_starves_no_turn_of_low_priority() -> None:
    scene = Scene(1)
    scene.enter("first")
    scene.enter("low", "", Priority.LOW)
    begun: list[str] = []
    for number in range(6):
        scene.enter(f"high {number}", "", Priority.HIGH)
        (running,) = [name for name, ticket in scene.tickets.items() if ticket.granted and name not in begun]
        begun.append(running)
        scene.leave(running)
    assert begun == ["first", "high 0", "high 1", "high 2", "high 3", "low"]


async def test_turn_queue_reports_the_position_among_all_priorities() -> None:
    scene = Scene(1)
    for name in ("n1", "n2", "h3", "l4"):
        scene.enter(name, "", LEVELS[name[0]])
    assert {name: ticket.position for name, ticket in scene.tickets.items() if name != "n2"} == {
        "n1": 0,
        "h3": 1,
        "l4": 3,
    }
    waits = [asyncio.create_task(ticket.turn()) for ticket in scene.tickets.values()]
    await asyncio.sleep(0.3)
    await await_until(
        lambda: sorted(scene.told)[-1:] == [("n2", 2)], "the waiting tasks learn their places", shown=lambda: scene.told
    )  # A turn that overtakes it moves it back.
    for wait in waits:
        wait.cancel()


@pytest.mark.parametrize(
    ("owner", "said", "wanted"),
    [
        ("client:ci", "high", Priority.HIGH),
        ("agent:team/lead", "high", Priority.HIGH),
        ("user:ada via agent:team/lead", "high", Priority.HIGH),
        ("user:ada", "high", Priority.NORMAL),
        ("agent:team/lead via agent:team/other", "high", Priority.NORMAL),
        ("agent:other/lead", "high", Priority.NORMAL),
        ("client:ci", "low", Priority.LOW),
        ("user:ada", "low", Priority.LOW),
        ("client:ci", "HIGH", Priority.NORMAL),
        ("client:ci", "100", Priority.NORMAL),
        ("client:ci", None, Priority.NORMAL),
    ],
)
def test_priority_is_capped_for_other_callers(owner: str, said: str | None, wanted: Priority) -> None:
    metadata = {} if said is None else {"priority": said}
    assert priority_of(owner, metadata, high_callers={"client:ci", "agent:team/lead"}) is wanted


@pytest.mark.parametrize(
    ("first", "answer", "order"),
    [
        pytest.param("high", {}, ["ask", "a", "go", "b"], id="high task, plain answer"),
        pytest.param("high", {"priority": "low"}, ["ask", "a", "go", "b"], id="high task, low answer"),
        pytest.param("normal", {"priority": "high"}, ["ask", "a", "b", "go"], id="normal task, high answer"),
    ],
)
async def test_first_message_decides_the_priority_of_a_task(
    open_door: Open, mounted: Any, documents: Any, first: str, answer: dict[str, str], order: list[str]
) -> None:
    limits = {"maxConcurrentTurns": 1, "highPriorityCallers": ["client:default"]}
    mounted.write(mounted.layout.config_file, documents(limits=limits))
    gates = Gates()
    door = await open_door(gates)
    asked = await door.say("ask", metadata={"priority": first})
    tasks = [await door.say(text, now=True) for text in "ab"]
    await door.say("go", now=True, taskId=asked["id"], metadata=answer)
    for text in ("a", "b", "go"):
        gates.open(text)
    for task in (asked, *tasks):
        await door.until(task["id"], "TASK_STATE_COMPLETED")
    assert gates.begun == order


@pytest.mark.parametrize(
    ("configured", "owner", "wanted"),
    [
        ("user:ada", "user:ada", Priority.HIGH),
        ("user:ada@example.com", person("ada@example.com"), Priority.HIGH),
        ("user:Ada Lovelace", person("Ada Lovelace"), Priority.HIGH),
        ("user:j\u00fcrgen", person("j\u00fcrgen"), Priority.HIGH),
        ("user:oidc#42", person("oidc#42"), Priority.HIGH),
        ("user:100%", person("100%"), Priority.HIGH),
        ("user:Ada Lovelace", person("Ada Byron"), Priority.NORMAL),
        ("client:ci", "client:ci", Priority.HIGH),
    ],
)
def test_priority_finds_configured_callers(configured: str, owner: str, wanted: Priority) -> None:
    limits = Limits.model_validate({"highPriorityCallers": [configured]})
    assert priority_of(owner, {"priority": "high"}, high_callers=limits.high_priority_callers) is wanted


async def test_priority_of_messages_orders_the_agents_queue(open_door: Open, mounted: Any, documents: Any) -> None:
    limits = {"maxConcurrentTurns": 1, "highPriorityCallers": ["client:default"]}
    mounted.write(mounted.layout.config_file, documents(limits=limits))
    gates = Gates()
    door = await open_door(gates)
    tasks = [
        await door.say(text, now=True, metadata={"priority": priority})
        for text, priority in (("a", "normal"), ("b", "low"), ("c", "normal"), ("d", "high"))
    ]
    for text in "adcb":
        gates.open(text)
    for task in tasks:
        await door.until(task["id"], "TASK_STATE_COMPLETED")
    assert gates.begun == ["a", "d", "c", "b"]
