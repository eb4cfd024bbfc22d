"""The reports of agents: their validation, the conditions that result, and the changes that cause a write."""

import pytest

from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.agent_report import AgentReport, BudgetReport, ServerReport
from fleetwright_operator.status.agent_reports import CARD_PATIENCE, AgentReports
from fleetwright_operator.status.report_parser import parse_report
from fleetwright_operator.status.runtime_report import degraded, drift, tools_of
from fleetwright_operator.status.starting_servers import connection_seconds_left, has_started

DIGEST = "sha256:" + "0" * 64
GOOD = {
    "revision": "0123456789",
    "cardDigest": DIGEST,
    "mcpServers": [{"name": "tools", "reachable": True, "message": "", "tools": 3, "missing": ["drop"]}],
}
TOOLS = ServerReport(tools=3, missing=("drop",))
NOW = "2026-03-01T12:00:00Z"
MIDNIGHT = "2026-01-02T00:00:00Z"
FAR = "2030-01-02T00:00:00Z"
SAID = [
    pytest.param(
        GOOD, AgentReport(revision="0123456789", card_digest=DIGEST, servers={"tools": TOOLS}), id="all that fits"
    ),
    pytest.param({"eventLoop": {"stalledSeconds": 7}}, AgentReport(is_stalled=True), id="a blocked loop"),
    pytest.param({"eventLoop": {"stalledSeconds": "7"}}, AgentReport(), id="a duration that is not a number"),
    pytest.param({"eventLoop": 7}, AgentReport(), id="an event loop that is not an object"),
    pytest.param(None, AgentReport(), id="nothing"),
    pytest.param([GOOD], AgentReport(), id="a list"),
    pytest.param({"revision": 7, "cardDigest": None, "mcpServers": "all"}, AgentReport(), id="nothing that fits"),
    pytest.param({"revision": "x" * 20, "cardDigest": f"{DIGEST}0"}, AgentReport(), id="texts of another shape"),
    pytest.param(
        {**GOOD, "cardDigest": "?"}, AgentReport(revision="0123456789", servers={"tools": TOOLS}), id="one bad field"
    ),
    pytest.param(
        {"mcpServers": [{"name": "a"}]},
        AgentReport(servers={"a": ServerReport(unreachable="no connection")}),
        id="no word on whether it was reached",
    ),
    pytest.param(
        {"mcpServers": [{"name": "a", "reachable": False, "message": "x" * 999}, {"reachable": True}, 7, {"name": 7}]},
        AgentReport(servers={"a": ServerReport(unreachable="x" * 300)}),
        id="a long reason, and entries that are none",
    ),
    pytest.param(
        {"mcpServers": [{"name": "a", "reachable": True, "tools": True}]},
        AgentReport(servers={"a": ServerReport()}),
        id="a count that is none",
    ),
    pytest.param(
        {"mcpServers": [{"name": "a", "reachable": True, "tools": -1}]},
        AgentReport(servers={"a": ServerReport()}),
        id="a count below nothing",
    ),
    pytest.param(
        {"mcpServers": [{"name": "a", "reachable": True, "missing": ["ok", 7, "x" * 129, "a b", "\n", ""]}]},
        AgentReport(servers={"a": ServerReport(missing=("ok",))}),
        id="names that no tool has",
    ),
    pytest.param(
        {"mcpServers": [{"name": "a", "reachable": True, "missing": [f"t{n}" for n in range(99)]}]},
        AgentReport(servers={"a": ServerReport(missing=tuple(f"t{n}" for n in range(20)))}),
        id="more names than anybody reads",
    ),
    pytest.param(
        {"mcpServers": [{"name": f"s{n}", "reachable": True} for n in range(999)]},
        AgentReport(servers={f"s{n}": ServerReport() for n in range(64)}),
        id="more servers than an agent may have",
    ),
    pytest.param(
        {
            "plugins": [
                {"name": "units", "loaded": False, "message": "x" * 999},
                {"name": "good", "loaded": True, "message": "y"},
                {"name": "No Name", "loaded": False},
                {"name": "mute", "loaded": False},
                7,
            ]
        },
        AgentReport(failed_plugins={"units": "x" * 300, "mute": "no reason given"}),
        id="plugins that are not loaded",
    ),
    pytest.param(
        {"budgets": [{"period": "Day", "exceeded": True, "resetsAt": "2026-01-02T00:00:00Z", "spentUsd": "5"}]},
        AgentReport(budgets=(BudgetReport(period="Day", exceeded=True, resets_at="2026-01-02T00:00:00Z"),)),
        id="a budget that is used up",
    ),
    pytest.param(
        {"budgets": [{"period": "Year"}, 7, {"period": "Hour", "exceeded": "yes", "resetsAt": "soon"}]},
        AgentReport(budgets=(BudgetReport(period="Hour", exceeded=False, resets_at=""),)),
        id="budgets of another shape",
    ),
    pytest.param(
        {"budgets": [{"period": "Day", "usd": "2.50", "tokens": 9, "exhausted": True, "resetsAt": MIDNIGHT}]},
        AgentReport(
            budgets=(
                BudgetReport(period="Day", exceeded=False, resets_at=MIDNIGHT, usd="2.50", tokens=9, exhausted=True),
            )
        ),
        id="a budget with which no task can begin",
    ),
    pytest.param(
        {"budgets": [{"period": "Day", "usd": 2, "tokens": "9", "exhausted": 1, "resetsAt": "2026-13-02T00:00:00Z"}]},
        AgentReport(budgets=(BudgetReport(period="Day", exceeded=False, resets_at=""),)),
        id="a budget with values of other types",
    ),
]


@pytest.mark.parametrize(("document", "wanted"), SAID)
def test_parse_report_keeps_only_valid_fields(document, wanted):
    assert parse_report(document) == wanted


def said(**unreachable):
    return AgentReport(servers={name: ServerReport(unreachable=why) for name, why in unreachable.items()})


def test_agent_reports_put_returns_only_changed_servers():
    reports = AgentReports(lambda: 0)
    assert reports.put("shop", "poet", said(a="", b="down")) == {"a", "b"}
    assert reports.put("shop", "poet", said(a="", b="")) == {"b"}
    assert reports.connection_errors("shop", "poet") == {"a": "", "b": ""}
    assert reports.put("shop", "poet", said(a="")) == {"b"}
    reports.forget("shop", "poet")
    assert reports.connection_errors("shop", "poet") == {}
    assert reports.get("shop", "poet") is None


LOOKS = [
    pytest.param([("want", "new", 0), ("say", "new", 200)], False, id="the card that was compiled"),
    pytest.param([("want", "new", 0), ("say", "old", 89)], False, id="another one, while the pod may still find out"),
    pytest.param([("want", "new", 0), ("say", "old", 90)], True, id="another one, when it must have found out"),
    pytest.param([("say", "old", 500), ("want", "new", 500)], False, id="a word from before there was another card"),
    pytest.param(
        [("want", "old", 0), ("want", "new", 100), ("say", "old", 150)], False, id="each card has its own time"
    ),
    pytest.param([("want", "new", 0)], False, id="no word"),
    pytest.param([("want", "new", 0), ("say", "", 900)], False, id="a pod that says nothing of its card"),
]


@pytest.mark.parametrize(("steps", "wanted"), LOOKS)
def test_card_drift_needs_time_for_the_agent_to_read_the_card(steps, wanted):
    clock, last = [0], "new"
    reports = AgentReports(lambda: clock[0])
    for what, card, at in steps:
        clock[0] = at
        if what == "say":
            reports.put("shop", "poet", AgentReport(card_digest=card))
        else:
            reports.serves_another_card("shop", "poet", wanted=card)
            last = card
    assert reports.serves_another_card("shop", "poet", wanted=last) is wanted


def test_card_drift_ignores_pods_of_another_revision():
    old = AgentReport(revision="a", card_digest="x")
    assert drift(old, wanted="y", revision="b", serves_another=True) is None
    assert drift(old, wanted="y", revision="a", serves_another=True).reason == "AnotherCard"
    assert drift(None, wanted="y", revision="a", serves_another=True) is None


def known(count, *missing, revision="r1"):
    return AgentReport(revision=revision, servers={"tools": ServerReport(tools=count, missing=missing)})


BEFORE = {"revision": "r1", "tools": [{"server": "tools", "count": 2}]}
COUNTS = [
    pytest.param({}, None, [], id="nobody has said anything"),
    pytest.param({}, known(3), [{"server": "tools", "count": 3}], id="the first word"),
    pytest.param(BEFORE, None, BEFORE["tools"], id="not heard yet: what was known stands"),
    pytest.param(BEFORE, known(None), BEFORE["tools"], id="an agent that has not shaken hands again"),
    pytest.param(BEFORE, known(0, "a"), [{"server": "tools", "count": 0, "missing": ["a"]}], id="another word"),
    pytest.param({**BEFORE, "revision": "r0"}, None, [], id="known of another revision, which may allow others"),
    pytest.param({}, known(3, revision="r0"), [], id="said by another revision"),
    pytest.param(
        {}, AgentReport(revision="r1", servers={"other": ServerReport(tools=1)}), [], id="a server nobody named"
    ),
]


@pytest.mark.parametrize(("previous", "heard", "wanted"), COUNTS)
def test_tools_of_returns_tools_of_the_current_revision(previous, heard, wanted):
    assert tools_of(previous, heard, servers=["tools"], revision="r1") == wanted


def test_degraded_names_unreachable_servers_and_missing_tools():
    both = [{"server": "a", "count": 0, "missing": ["x", "y"]}]
    assert degraded(None, [], servers=["a"]) is None
    assert degraded(said(elsewhere="down"), [], servers=["a"]) is None
    short = degraded(None, both, servers=["a"])
    assert (short.reason, short.message) == (
        "ToolsMissing",
        "McpServer 'a' does not offer tools that the spec names: x, y",
    )
    large = AgentReport(servers={"a": ServerReport(tools=1, oversized=("x", "y"))})
    found = degraded(large, [], servers=["a"])
    assert found.reason == "ToolsTooLarge"
    assert "are left out: x, y; shorten their descriptions" in found.message
    assert degraded(large, [], servers=["b"]) is None
    lost = degraded(said(a="down"), both, servers=["a"])
    assert lost.reason == "McpServerUnreachable"
    assert "cannot be reached: down" in lost.message
    assert "x, y" in lost.message


def test_degraded_names_a_plugin_that_is_not_loaded():
    failed = AgentReport(failed_plugins={"units": "no such package", "former": "gone"})
    found = degraded(failed, [], servers=[], plugins=["units", "good"])
    assert (found.reason, found.message) == ("PluginNotLoaded", "plugin 'units' is not loaded: no such package")
    assert degraded(failed, [], servers=[], plugins=["good"]) is None


# The reconcile loop.


@pytest.fixture
async def poet(world, api, objects):
    api.put(objects.server())
    api.put(objects.agent(mcpServers=[{"name": "tools"}]))
    await world.start()
    await world.settle()
    run_pod(api, "p1")
    await world.settle()
    return world


def run_pod(api, name):
    template = api.find("Deployment", "poet")["spec"]["template"]["metadata"]
    api.put({"kind": "Pod", "metadata": {"name": name, "namespace": "shop", **template}})


def report(api, **changes):
    status = api.find("Agent", "poet")["status"]
    server = {"name": "tools", "reachable": True, "message": "", "tools": 2, "missing": ["drop"]}
    return {"revision": status["revision"], "cardDigest": status["card"]["digest"], "mcpServers": [server], **changes}


async def say(world, document, pod="p1"):
    world.manager.report_handler.handle(world.manager.cache.get("Pod", "shop", pod), document)
    await world.settle()


async def test_agent_report_reaches_the_status_in_one_write(poet, api):
    await say(poet, report(api))
    status = api.find("Agent", "poet")["status"]
    assert status["tools"] == [{"server": "tools", "count": 2, "missing": ["drop"]}]
    assert poet.conditions("Agent", "poet")["Degraded"][1] == "ToolsMissing"
    api.writes.clear()
    await say(poet, report(api, runningTasks=7, lastCompaction={"outcome": "compacted"}))
    assert api.writes == [], "the number of tasks causes no status write"


async def test_stalled_agent_is_degraded_until_it_answers_again(poet, api):
    api.roll_out("poet")
    await say(poet, report(api))
    stalled = report(api, eventLoop={"stalledSeconds": 7})
    await say(poet, stalled)
    found = poet.conditions("Agent", "poet")
    assert (found["Ready"][0], found["Degraded"][1]) == ("True", "EventLoopStalled"), "the probe has not failed yet"
    assert "does not offer tools" in found["Degraded"][2]
    rolled_out = api.find("Deployment", "poet")["status"]
    api.set_status("Deployment", "poet", {**rolled_out, "availableReplicas": 0})
    await poet.settle()
    found, status = poet.conditions("Agent", "poet"), api.find("Agent", "poet")["status"]
    assert {found[kind][1] for kind in ("Available", "Ready", "Degraded")} == {"EventLoopStalled"}
    assert (found["Ready"][0], status["phase"]) == ("False", "Degraded")
    api.writes.clear()
    await say(poet, {**stalled, "eventLoop": {"stalledSeconds": 17}})
    assert api.writes == [], "the duration of the stall causes no status write"
    api.roll_out("poet")
    await say(poet, report(api))
    found = poet.conditions("Agent", "poet")
    assert (found["Ready"][1], found["Degraded"][1]) == ("Ready", "ToolsMissing")


async def test_pod_that_waits_for_the_memory_names_its_holder(poet, api):
    """The pod of a deleted or evicted agent drains while its successor waits for the volume."""
    api.roll_out("poet")
    await say(poet, report(api))
    tools = api.find("Agent", "poet")["status"]["tools"]
    rolled_out = api.find("Deployment", "poet")["status"]
    api.set_status("Deployment", "poet", {**rolled_out, "availableReplicas": 0})
    api.put(
        {
            **api.find("Pod", "p1"),
            "metadata": {**api.find("Pod", "p1")["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"},
        }
    )
    run_pod(api, "p2")
    api.set_status("Pod", "p2", {"conditions": [{"type": "Ready", "status": "False"}]})
    await poet.settle()
    await say(poet, report(api, mcpServers=[], waitsForMemory={"holder": "p1"}), pod="p2")
    found, status = poet.conditions("Agent", "poet"), api.find("Agent", "poet")["status"]
    assert (found["Ready"][:2], status["phase"]) == (("False", "WaitingForMemory"), "Pending")
    assert "pod 'p1' still uses the memory volume" in found["Ready"][2]
    assert status["tools"] == tools, "a process that waits knows no tools yet"
    api.roll_out("poet")
    api.set_status("Pod", "p2", {"conditions": [{"type": "Ready", "status": "True"}]})
    await say(poet, report(api), pod="p2")
    assert poet.conditions("Agent", "poet")["Ready"][:2] == ("True", "Ready")


async def test_cause_of_the_pod_counts_more_than_an_old_stall(poet, api):
    await say(poet, report(api, eventLoop={"stalledSeconds": 61}))
    crashed = {"name": "agent", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    generation = api.find("Deployment", "poet")["metadata"]["generation"]
    api.set_status("Deployment", "poet", {"observedGeneration": generation})
    api.set_status("Pod", "p1", {"containerStatuses": [crashed]})
    await poet.settle()
    assert poet.conditions("Agent", "poet")["Ready"][1] == "CrashLoop"
    assert api.find("Agent", "poet")["status"]["phase"] == "Failed"


async def test_stall_counts_more_than_the_crash_of_an_earlier_process(poet, api):
    await say(poet, report(api, eventLoop={"stalledSeconds": 7}))
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    runs = {"name": "agent", "state": {"running": {}}, "ready": False, "lastState": killed}
    generation = api.find("Deployment", "poet")["metadata"]["generation"]
    api.set_status("Deployment", "poet", {"observedGeneration": generation})
    api.set_status("Pod", "p1", {"containerStatuses": [runs]})
    await poet.settle()
    assert poet.conditions("Agent", "poet")["Ready"][1] == "EventLoopStalled"
    assert api.find("Agent", "poet")["status"]["phase"] == "Degraded"
    api.set_status("Pod", "p1", {"containerStatuses": [runs], "conditions": [{"type": "Ready", "status": "False"}]})
    await say(poet, report(api, mcpServers=[]))
    found = poet.conditions("Agent", "poet")
    assert (found["Ready"][1], found["Degraded"][1]) == ("CrashLoop", "ToolsMissing"), "a starting process knows less"


async def test_agent_report_survives_operator_and_agent_restarts(poet, api, make_world):
    await say(poet, report(api))
    await poet.stop()
    api.writes.clear()
    another = make_world(api)
    await another.start()
    await another.settle()
    assert api.writes == []
    assert another.conditions("Agent", "poet")["Degraded"][1] == "ToolsMissing"

    api.remove("Pod", "p1")
    run_pod(api, "p2")
    await another.settle()
    assert another.conditions("Agent", "poet")["Degraded"][1] == "ToolsMissing"
    await say(another, report(api, mcpServers=[{"name": "tools", "reachable": True, "tools": 3}]), pod="p2")
    assert "Degraded" not in another.conditions("Agent", "poet")
    await another.stop()


async def test_card_drift_is_a_condition_until_the_card_matches(poet, api):
    other = report(api, cardDigest=DIGEST)
    await say(poet, other)
    assert "CardDrift" not in poet.conditions("Agent", "poet")
    await poet.later(CARD_PATIENCE)
    await say(poet, other)
    status, reason, message = poet.conditions("Agent", "poet")["CardDrift"]
    assert (status, reason) == ("True", "AnotherCard")
    assert DIGEST in message
    await say(poet, report(api))
    assert "CardDrift" not in poet.conditions("Agent", "poet")


async def test_card_key_rotation_is_no_card_drift(poet, api):
    await say(poet, report(api))
    before = report(api)
    await poet.later(90 * 24 * 3600)
    assert report(api)["cardDigest"] != before["cardDigest"]
    await say(poet, before)
    assert "CardDrift" not in poet.conditions("Agent", "poet")


async def test_budget_exceeded_is_a_condition_until_the_budget_resets(poet, api):
    full = [{"period": "Day", "exceeded": True, "resetsAt": "2026-01-02T00:00:00Z"}]
    await say(poet, report(api, budgets=full))
    assert "BudgetExceeded" not in poet.conditions("Agent", "poet"), "the spec has no such budget"
    body = api.find("Agent", "poet")
    api.put({**body, "spec": {**body["spec"], "budgets": [{"period": "Day", "tokens": 5}]}})
    await poet.settle()
    await say(poet, report(api, budgets=full))
    message = "the budget of the day is used up until 2026-01-02T00:00:00Z"
    assert poet.conditions("Agent", "poet")["BudgetExceeded"] == ("True", "UsedUp", message)
    await say(poet, report(api, budgets=[{**full[0], "exceeded": False}]))
    assert "BudgetExceeded" not in poet.conditions("Agent", "poet")


async def test_exhausted_budget_is_in_the_status_and_written_once(poet, api, make_world):
    body = api.find("Agent", "poet")
    api.put({**body, "spec": {**body["spec"], "budgets": [{"period": "Day", "tokens": 5}]}})
    await poet.settle()
    day = {"period": "Day", "tokens": 5, "exceeded": False, "exhausted": False, "resetsAt": FAR}
    await say(poet, report(api, budgets=[day]))
    assert api.find("Agent", "poet")["status"]["budgets"] == [{"period": "Day", "tokens": 5}]
    full = {**day, "exceeded": True, "exhausted": True}
    await say(poet, report(api, budgets=[full]))
    shown = [{"period": "Day", "tokens": 5, "exhaustedUntil": FAR}]
    assert api.find("Agent", "poet")["status"]["budgets"] == shown
    api.writes.clear()
    await say(poet, report(api, budgets=[{**full, "spentTokens": 5}]))
    assert api.writes == [], "a repeated report causes no write"
    await poet.stop()
    another = make_world(api)
    await another.start()
    await another.settle()
    assert api.find("Agent", "poet")["status"]["budgets"] == shown, "an operator without a report keeps the entry"
    await another.stop()


def calls(total, errors, **more):
    return {"modelCalls": {"seconds": 60, "calls": total, "errors": errors, **more}}


async def test_failing_model_degrades_the_agent_until_it_recovers(poet, api):
    healthy = report(api, mcpServers=[])
    shown = []
    for total, errors in ((0, 0), (10, 4), (10, 5), (10, 2), (20, 2), (20, 1), (10, 2)):
        await say(poet, healthy | calls(total, errors, lastError="model_timeout"))
        shown.append(poet.conditions("Agent", "poet").get("Degraded", ("", ""))[1])
    assert shown == ["", "", "ModelFailing", "ModelFailing", "ModelFailing", "", ""]


async def test_failing_model_message_names_the_error(poet, api):
    await say(poet, report(api) | calls(2, 2, lastError="model_timeout"))
    conditions = api.find("Agent", "poet")["status"]["conditions"]
    message = next(each["message"] for each in conditions if each["type"] == "Degraded")
    assert "failed in the last minute (model_timeout)" in message
    assert "drop" in message, "other lacks are named too"


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("many", id="a text"),
        pytest.param({"calls": True, "errors": True}, id="booleans"),
        pytest.param({"calls": 3, "errors": -3}, id="a negative count"),
        pytest.param({"calls": 1e300, "errors": 1e300}, id="fractions"),
    ],
)
async def test_damaged_counts_of_model_calls_degrade_nothing(poet, api, told):
    await say(poet, report(api, mcpServers=[], modelCalls=told, spentUsd=float("inf"), runningTasks="7"))
    assert "Degraded" not in poet.conditions("Agent", "poet")


REFUSED = {"model": "gpt-x", "reason": "model_unauthorized", "message": "Incorrect key.\n\x1b[31mLook"}


@pytest.mark.parametrize(
    ("refusal", "reason", "says"),
    [
        pytest.param(
            REFUSED,
            "KeyRefused",
            "the provider of model 'gpt-x' refuses the key (401): Incorrect key. [31mLook. Check the Secret in"
            " apiKeySecretRef of the model",
            id="a key, and words with control characters",
        ),
        pytest.param(
            {**REFUSED, "reason": "model_not_found", "message": None},
            "ModelUnknown",
            "the provider of model 'gpt-x' does not know the model or the path (404). Check name and baseURL of the"
            " model",
            id="an unknown model, and no words",
        ),
        pytest.param({**REFUSED, "reason": "model_odd"}, None, None, id="a reason of another version"),
        pytest.param({**REFUSED, "model": "two words"}, None, None, id="a name that no model has"),
        pytest.param("all", None, None, id="a text"),
    ],
)
async def test_refused_model_is_a_condition_until_a_call_succeeds(poet, api, refusal, reason, says):
    await say(poet, report(api) | calls(1, 0, refused=[refusal]))
    found = poet.conditions("Agent", "poet").get("ModelRefused")
    assert found == (None if reason is None else ("True", reason, says))
    await say(poet, report(api) | calls(2, 0))
    assert "ModelRefused" not in poet.conditions("Agent", "poet")


QUIET = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        pytest.param(
            [{"tasks": 200, "succeeded": 180, "costUsd": "1.2345"}, {"skill": "refund", "tasks": 2, "succeeded": 0}],
            [
                {"tasks": 200, "succeeded": 180, "costUSD": "1.2"},
                {"skill": "refund", "tasks": 2, "succeeded": 0},
            ],
            id="two skills",
        ),
        pytest.param(
            [{"tasks": 1, "succeeded": 2}, {"tasks": "1", "succeeded": 0}, "none", {"tasks": 0, "succeeded": 0}],
            None,
            id="invalid",
        ),
        pytest.param(
            [{"skill": "a b", "tasks": 1, "succeeded": 1, "costUsd": "1e9"}],
            [{"tasks": 1, "succeeded": 1}],
            id="invalid parts",
        ),
    ],
)
async def test_status_shows_the_outcomes_of_the_last_tasks(poet, api, told, shown):
    started = {"activity": {**QUIET, "startedAt": "2026-03-01T12:04:05Z"}}
    await say(poet, report(api) | started | {"outcomes": told})
    assert api.find("Agent", "poet")["status"]["activity"].get("outcomes") == shown


async def test_activity_is_rounded_and_refreshed_every_ten_minutes(poet, api):
    started = {"activity": {**QUIET, "startedAt": "2026-03-01T12:04:05Z"}}
    await say(poet, report(api) | started | {"runningTasks": 3, "spentUsd": 1.37})
    shown = api.find("Agent", "poet")["status"]["activity"]
    assert shown == {"runningTasks": 2, "lastActive": "2026-03-01T12:00:00Z", "spentUSD": "1.4"}
    api.writes.clear()
    for minute in range(12):
        await poet.later(60)
        await say(poet, report(api) | started | {"runningTasks": 10 + 10 * (minute % 2), "spentUsd": 2.0 + minute})
    assert len(api.writes) == 1
    api.writes.clear()
    last = report(api) | started | {"runningTasks": 10 + 10 * (9 % 2), "spentUsd": 2.0 + 9}
    for _ in range(30):
        await poet.later(60)
        await say(poet, last)
    assert len(api.writes) <= 1, "an idle agent causes no write"


@pytest.mark.parametrize(
    ("spent", "shown"),
    [(0.0, None), (0.000412, "0.00041"), (0.25, "0.25"), (1.0, "1"), (1300.0, "1300"), (1e-7, "0.000001")],
)
async def test_activity_shows_costs_below_one_cent(poet, api, spent, shown):
    started = {"activity": {**QUIET, "startedAt": "2026-03-01T12:04:05Z"}}
    await say(poet, report(api) | started | {"spentUsd": spent})
    assert api.find("Agent", "poet")["status"]["activity"].get("spentUSD") == shown


async def test_first_costs_are_shown_within_a_minute(poet, api):
    started = {"activity": {**QUIET, "startedAt": "2026-03-01T12:04:05Z"}}
    await say(poet, report(api) | started | {"spentUsd": 0.0})
    for spent, shown in ((0.000412, "0.00041"), (0.5, "0.00041")):
        await poet.later(60)
        await say(poet, report(api) | started | {"spentUsd": spent})
        assert api.find("Agent", "poet")["status"]["activity"]["spentUSD"] == shown


async def test_last_activity_does_not_precede_the_agent(poet, api):
    started = {"activity": {**QUIET, "startedAt": "2026-03-01T11:55:05Z"}}
    await say(poet, report(api) | started)
    assert api.find("Agent", "poet")["status"]["activity"]["lastActive"] == NOW, "11:50 is before the creation"


AVAILABLE = {"type": "Available", "status": "True", "reason": "RolledOut", "lastTransitionTime": NOW}
STARTING = {**AVAILABLE, "status": "False", "reason": "RollingOut"}


@pytest.mark.parametrize(
    ("conditions", "later", "started"),
    [
        pytest.param([], 0, False, id="no state yet"),
        pytest.param([STARTING], 3600, False, id="it rolls out"),
        pytest.param([{**STARTING, "reason": "ImagePull"}], 0, True, id="it cannot start"),
        pytest.param([AVAILABLE], 59, False, id="it has just become available"),
        pytest.param([AVAILABLE], 60, True, id="it has been available for a minute"),
    ],
)
def test_agents_should_have_reached_a_server_that_has_started(conditions, later, started):
    status = {"conditions": conditions}
    now = parse_timestamp(NOW) + later
    assert has_started(status, now=now) is started
    assert connection_seconds_left(status, now=now) == (60 - later if conditions == [AVAILABLE] else 0)
