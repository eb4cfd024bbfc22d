"""Calls that the agent's policy denies: the model gets an error, and the agent does not make the call."""

from pathlib import Path
from typing import Any

import pytest

from fleetwright_agent.config import enforcement as config
from fleetwright_agent.storage.sqlite.call_windows import SqliteCallWindows
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy

LIMITED = {"schema": {"properties": {"amount": {"maximum": 100}}, "required": ["amount"]}, "tool": "house__charge"}


def enforcement(policy: dict[str, Any], database: Database, clock: list[int]) -> EnforcementPolicy:
    windows = SqliteCallWindows(database, now_ns=lambda: clock[0] * 1_000_000_000)
    return EnforcementPolicy(config.Enforcement.model_validate(policy), windows)


@pytest.fixture
async def database(tmp_path: Path):
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


@pytest.mark.parametrize(
    ("policy", "tool", "arguments", "why"),
    [
        pytest.param({}, "any", {}, None, id="without a policy everything may be called"),
        pytest.param({"deny": ["a"]}, "a", {}, "a is not allowed for this agent", id="a tool that is denied"),
        pytest.param({"deny": ["a"]}, "b", {}, None, id="another tool than the denied one"),
        pytest.param({"deny": ["s__pay.it"]}, offered_name("s__pay.it"), {}, "is not allowed", id="a name as offered"),
        pytest.param({"arguments": [LIMITED]}, "house__charge", {"amount": 100}, None, id="arguments within bounds"),
        pytest.param(
            {"arguments": [LIMITED]}, "house__charge", {"amount": 101}, "amount: 101 is greater", id="out of bounds"
        ),
        pytest.param({"arguments": [LIMITED]}, "house__charge", {}, "'amount' is a required", id="what must be there"),
        pytest.param({"arguments": [LIMITED]}, "other", {}, None, id="a rule of another tool"),
        pytest.param(
            {"arguments": [{"tool": "a", "schema": {"$ref": "#"}}]},
            "a",
            {},
            "cannot be read",
            id="a rule that refers to itself shuts the tool",
        ),
        pytest.param(
            {"arguments": [{"tool": "a", "schema": {"properties": {"x": {"pattern": "^(a|aa)+$"}}}}]},
            "a",
            {"x": "a" * 90 + "!"},
            "its pattern takes too long",
            id="so does a pattern that would take hours",
        ),
    ],
)
async def test_enforcement_refusal_follows_the_policy(policy, tool, arguments, why, database):
    blocked = enforcement(policy, database, [0]).refusal(tool, arguments)
    assert (blocked is None) if why is None else (blocked is not None and why in str(blocked))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        pytest.param({"patternProperties": {"^x": {}}}, "use propertyNames and properties", id="patterns of names"),
        pytest.param(
            {"properties": {"to": {"allOf": [{"patternProperties": {}}]}}},
            "use propertyNames and properties",
            id="patterns of names, further in",
        ),
        pytest.param({"$ref": "https://example.com/x"}, "refers to outside of itself", id="what lies elsewhere"),
    ],
)
def test_enforcement_config_refuses_unsupported_schemas(schema, why):
    with pytest.raises(ValueError, match=why) as refused:
        config.Enforcement.model_validate({"arguments": [{"tool": "house__charge", "schema": schema}]})
    assert "arguments.0.schema" in str(refused.value)


async def test_enforcement_limit_window_slides_and_survives_a_restart(tmp_path: Path):
    policy = {"limits": [{"tool": "a", "max": 2, "windowSeconds": 60}]}
    clock = [1000]
    for _ in range(2):
        database = Database(tmp_path / "conversations.db", SCHEMA)
        assert await enforcement(policy, database, clock).admit("a") is None
        clock[0] += 20
        await database.aclose()
    database = Database(tmp_path / "conversations.db", SCHEMA)
    enforced = enforcement(policy, database, clock)
    assert "the limit of a is reached (2 calls in 60 s); there is room in 20 s" in str(await enforced.admit("a"))
    assert await enforced.admit("b") is None, "another tool has no limit"
    clock[0] += 20
    assert await enforced.admit("a") is None
    assert await enforced.admit("a") is not None
    await database.aclose()


async def test_enforcement_limits_of_one_tool_count_separately(database):
    hour, day = ({"tool": "a", "max": most, "windowSeconds": seconds} for most, seconds in ((2, 3600), (3, 86_400)))
    clock = [100_000]
    enforced = enforcement({"limits": [hour, day]}, database, clock)
    for _ in range(2):
        assert await enforced.admit("a") is None
    assert "(2 calls in 3600 s); there is room in 3600 s" in str(await enforced.admit("a"))
    clock[0] += 3600
    assert await enforced.admit("a") is None
    assert "(3 calls in 86400 s); there is room in 82800 s" in str(await enforced.admit("a"))
    clock[0] += 82_800
    assert await enforced.admit("a") is None


async def test_enforcement_lowered_limit_waits_for_old_calls_to_expire(database):
    clock = [1000]
    former = enforcement({"limits": [{"tool": "a", "max": 3, "windowSeconds": 60}]}, database, clock)
    for _ in range(3):
        assert await former.admit("a") is None
        clock[0] += 10
    enforced = enforcement({"limits": [{"tool": "a", "max": 1, "windowSeconds": 60}]}, database, clock)
    assert "there is room in 50 s" in str(await enforced.admit("a"))


async def test_enforcement_wildcard_limit_counts_all_tools(database):
    policy = {"limits": [{"tool": "*", "max": 2, "windowSeconds": 60}, {"tool": "a", "max": 1, "windowSeconds": 60}]}
    enforced = enforcement(policy, database, [0])
    assert await enforced.admit("a") is None
    assert "the limit of a " in str(await enforced.admit("a")), "a blocked call does not count towards the common limit"
    assert await enforced.admit("b") is None
    assert "the limit of tools " in str(await enforced.admit("c"))


async def test_enforcement_blocked_call_uses_no_other_limit(database):
    """A call that the common limit blocks does not count towards the limit of its tool."""
    policy = {"limits": [{"tool": "*", "max": 1, "windowSeconds": 10}, {"tool": "a", "max": 1, "windowSeconds": 60}]}
    clock = [100]
    enforced = enforcement(policy, database, clock)
    assert await enforced.admit("b") is None
    assert "the limit of tools " in str(await enforced.admit("a"))
    clock[0] += 20
    assert await enforced.admit("a") is None


async def test_enforcement_tolerates_a_clock_set_back(database):
    clock = [10_000]
    enforced = enforcement({"limits": [{"tool": "a", "max": 1, "windowSeconds": 60}]}, database, clock)
    assert await enforced.admit("a") is None
    clock[0] = 100
    assert await enforced.admit("a") is None
