"""What a turn has used is said again by whoever takes it up, and is kept no longer than that can happen."""

from decimal import Decimal
from pathlib import Path

from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.schema import SCHEMA
from fleetwright_agent.memory.spending import Spending
from fleetwright_agent.turn.bills import Bills
from fleetwright_agent.turn.frames import PeerCost, Purpose, TurnRequest, Usage

USED = [Usage("m", 10, 2, 3, 1, Decimal("0.5"), Purpose.SUMMARY), PeerCost("a/b", Decimal("0.25"))]


async def test_a_bill_outlives_its_turn_until_the_end_of_its_task_is_stored(tmp_path: Path) -> None:
    now = [1000.0]
    database = Database(tmp_path / "conversations.db", SCHEMA)
    bills = Bills(Spending(database), clock=lambda: now[0])
    begun, taken_up = (TurnRequest("o", "c", "t", "x", restarted=restarted) for restarted in (False, True))
    assert await bills.begin(begun) == []
    for frame in USED:
        await bills.note(begun, frame)
    assert await bills.begin(taken_up) == USED
    await bills.close(begun)
    assert await bills.begin(taken_up) == USED, "the process ended before the end of the task was stored"
    now[0] += 61
    await bills.begin(TurnRequest("o", "c", "another", "x"))
    assert await bills.begin(taken_up) == []
    await database.aclose()


async def test_an_answer_begins_a_bill_of_its_own(tmp_path: Path) -> None:
    database = Database(tmp_path / "conversations.db", SCHEMA)
    bills = Bills(Spending(database))
    request = TurnRequest("o", "c", "t", "x")
    await bills.note(request, USED[0])
    assert await bills.begin(request) == []
    assert await bills.begin(TurnRequest("o", "c", "t", "x", restarted=True)) == []
    await database.aclose()
