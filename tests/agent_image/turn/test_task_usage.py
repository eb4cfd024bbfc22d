"""In-flight usage: a resumed turn reports it again, and the store deletes it when the task can no longer resume."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from prometheus_client import CollectorRegistry

from fleetwright_agent.config.model import Price
from fleetwright_agent.protocol.frames import PeerCost, Purpose, TurnRequest, Usage
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.inflight_usage import SqliteInflightUsage
from fleetwright_agent.storage.sqlite.usage_store import SqliteUsageStore
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.cost.task_usage import TaskUsage
from fleetwright_agent.turn.cost.usage import CostAccount

ACCOUNT = CostAccount(
    "m", Price.model_validate({"inputPerMillion": "100000", "outputPerMillion": "250000"}), Purpose.SUMMARY
)
USED = [Usage("m", 10, 2, 3, 1, Decimal("1.5"), Purpose.SUMMARY), PeerCost("a/b", Decimal("0.25"))]
REPLY = AIMessage(
    "",
    usage_metadata={
        "input_tokens": 10,
        "output_tokens": 2,
        "total_tokens": 12,
        "input_token_details": {"cache_read": 3, "cache_creation": 1},
    },
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


async def use(database: Database, bills: TaskUsage, request: TurnRequest) -> None:
    """Record a call of a model, and a call of a tool that asks a peer."""
    metrics = Metrics(CollectorRegistry())
    books = CostAccounting((), SqliteUsageStore(database, now=lambda: 0.0), metrics, now=lambda: 0.0)
    for frame in (books.charge(REPLY, ACCOUNT, request), USED[1]):
        await bills.note(request, frame)


async def test_task_usage_is_kept_until_the_end_of_its_task_is_stored(database: Database) -> None:
    now = [1000.0]
    bills = TaskUsage(SqliteInflightUsage(database), clock=lambda: now[0])
    begun, taken_up = (TurnRequest("o", "c", "t", "x", restarted=restarted) for restarted in (False, True))
    assert await bills.begin(begun) == []
    await use(database, bills, begun)
    assert await bills.begin(taken_up) == USED
    bills.close(begun)
    assert await bills.begin(taken_up) == USED, "the process ended before the end of the task was stored"
    now[0] += 61
    await bills.begin(TurnRequest("o", "c", "another", "x"))
    assert await bills.begin(taken_up) == []


async def test_task_usage_is_reset_by_an_answer(database: Database) -> None:
    bills = TaskUsage(SqliteInflightUsage(database))
    request = TurnRequest("o", "c", "t", "x")
    await use(database, bills, request)
    assert await bills.begin(request) == []
    assert await bills.begin(TurnRequest("o", "c", "t", "x", restarted=True)) == []


async def test_task_usage_in_a_question_is_not_reported_again(
    database: Database,
) -> None:
    bills = TaskUsage(SqliteInflightUsage(database))
    asking = TurnRequest("o", "c", "t", "x")
    await use(database, bills, asking)
    bills.close(asking)
    bills.open("o", "t")
    assert await bills.begin(TurnRequest("o", "c", "t", "yes", restarted=True)) == []


async def test_task_usage_is_on_disk_before_it_is_reported(database: Database, tmp_path: Path) -> None:
    bills, request = TaskUsage(SqliteInflightUsage(database)), TurnRequest("o", "c", "t", "x")
    await use(database, bills, request)
    other = Database(tmp_path / "conversations.db", SCHEMA)
    assert len(await SqliteInflightUsage(other).of("o", "t")) == len(USED)
    assert (await SqliteUsageStore(other, now=lambda: 0.0).since(0)).usd == Decimal("1.5")
    await other.aclose()
