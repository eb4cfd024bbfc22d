"""Plugins in an agent, over A2A: the example plugin, installed as in an image, and plugins that fail in every way."""

import asyncio
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest
from tests.support.agent.entry_points import Installed
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import within

from fleetwright_agent.plugins.api import Plugin, PluginTool, ToolError

EXAMPLE = Path(__file__).parents[3] / "examples/plugin"
FEET = "Convert metres to feet for 3"


def plugin(run, *, name="stretch", **about):
    about = {"description": "Stretch a rope.", "parameters": {"properties": {}}} | about
    return lambda config: Plugin(tools=(PluginTool(name=name, run=run, **about),))


def of(*found):
    return lambda: found


async def told(guest):
    """Return the plugins on the status page, once the agent has tried to load all of them."""
    async with (
        within("the status lists the plugins"),
        httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http,
    ):
        while not (plugins := (await http.get("/status")).json()["plugins"]):  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)
    return plugins


@pytest.fixture(scope="session")
def site(process_ring: None, tmp_path_factory):
    """Return a folder into which the example plugin is installed from its wheel."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True)
    (wheel,) = (folder / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


async def test_example_plugin_serves_its_tool_with_its_configuration(agent_process, site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    async with agent_process(plugins=[{"name": "units", "config": {"digits": 1}}]) as guest:
        assert "3.0 metres are 9.8 feet." in read_answer(await guest.say(FEET))
        assert "Error: metres must not be negative" in read_answer(await guest.say("Convert metres to feet for -3"))
        assert await guest.metric('tool_calls_total{outcome="ok",tool="units__metres_to_feet"}') == 1
        assert await guest.metric('plugin_loaded{plugin="units"}') == 1
        assert await told(guest) == [{"name": "units", "loaded": True, "tools": 1, "message": ""}]


async def test_installed_plugin_is_not_used_unless_named(agent_process, site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    async with agent_process() as guest:
        assert "I read your message:" in read_answer(await guest.say(FEET))


async def test_plugin_with_invalid_configuration_loses_only_its_tools(agent_process, site, house, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site))
    async with agent_process(plugins=[{"name": "units", "config": {"digits": "many"}}]) as guest:
        (said,) = await told(guest)
        assert said["message"].endswith("ValueError: digits must be a whole number from 0 to 9")
        assert "is booked" in read_answer(await guest.say("Book table for 4"))
    assert house.ledger == ["table for 4"]


async def _done(_):
    return "The rope is long."


def _raises(config):
    raise RuntimeError("no rope")


def _exits(config):
    sys.exit(3)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param([], "no installed package has this entry point in", id="it is not installed"),
        pytest.param(
            [Installed("other", plugin(_done))],
            "no installed package has this entry point",
            id="another one is installed",
        ),
        pytest.param(
            [Installed("rope", plugin(_done), "a:x"), Installed("rope", plugin(_done), "b:x")],
            "2 installed packages have this entry point",
            id="two packages have its name",
        ),
        pytest.param([Installed("rope", _raises)], "it could not be loaded: RuntimeError: no rope", id="it raises"),
        pytest.param([Installed("rope", _exits)], "it could not be loaded: SystemExit: 3", id="it ends the process"),
        pytest.param([Installed("rope", None)], "it could not be loaded: TypeError", id="its factory is none"),
        pytest.param([Installed("rope", lambda config: [])], "its factory returned list", id="it gives no plugin"),
        pytest.param(
            [Installed("rope", plugin(_done, name="a b"))],
            "the name of its tool 'a b' must have",
            id="a name that no provider takes",
        ),
        pytest.param(
            [Installed("rope", plugin(_done, parameters={"type": "array"}))],
            "must have type object",
            id="arguments that are no object",
        ),
        pytest.param(
            [Installed("rope", plugin(_done, parameters={"properties": 7}))],
            "it is not a valid JSON Schema",
            id="arguments that no schema describes",
        ),
        pytest.param(
            [Installed("rope", lambda config: Plugin(tools=plugin(_done)(config).tools * 2))],
            "two of its tools have the same name",
            id="two tools of one name",
        ),
    ],
)
async def test_unloadable_plugin_is_reported_and_loses_only_its_tools(agent, house, found, says):
    async with agent(plugins=[{"name": "rope"}], installed_plugins=of(*found)) as guest:
        (said,) = await told(guest)
        assert (said["name"], said["loaded"], said["tools"]) == ("rope", False, 0)
        assert says in said["message"]
        assert await guest.metric('plugin_loaded{plugin="rope"}') == 0
        assert "is booked" in read_answer(await guest.say("Book table for 4; stretch rope"))
    assert house.ledger == ["table for 4"]


async def test_failing_plugin_leaves_other_plugins_loaded(agent):
    plugins = [{"name": "bad"}, {"name": "rope"}]
    found = of(Installed("bad", _raises), Installed("rope", plugin(_done)))
    async with agent(plugins=plugins, installed_plugins=found) as guest:
        assert "The rope is long." in read_answer(await guest.say("Stretch rope"))
        assert [each["loaded"] for each in await told(guest)] == [False, True]


async def _raising(_):
    raise RuntimeError("/etc/secret in line 7")


async def _refusing(_):
    raise ToolError("pull harder")


async def _numbers(_):
    return 7


async def _huge(_):
    return "x" * 60_000


@pytest.mark.parametrize(
    ("run", "says"),
    [
        pytest.param(_raising, "Error: the tool broke; go on without it", id="it raises, and nothing internal is told"),
        pytest.param(_refusing, "Error: pull harder", id="it fails in words"),
        pytest.param(_numbers, "Error: stretch gave int in place of text", id="it gives no text"),
    ],
)
async def test_failing_plugin_call_is_a_result_of_the_turn(agent, states, run, says):
    async with agent(plugins=[{"name": "rope"}], installed_plugins=of(Installed("rope", plugin(run)))) as guest:
        done = await guest.say("Stretch rope")
        assert states(done) == "completed"
        assert says in read_answer(done)
        assert await guest.metric('tool_calls_total{outcome="error",tool="rope__stretch"}') == 1


async def test_plugin_result_is_truncated(agent, message):
    async with agent(plugins=[{"name": "rope"}], installed_plugins=of(Installed("rope", plugin(_huge)))) as guest:
        events = [json.dumps(e) async for e in guest.events("SendStreamingMessage", message("Stretch rope"))]
    assert any('"outputChars": 50031' in event for event in events)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"enforcement": {"deny": ["rope__stretch"]}}, "I read your message:", id="denied"),
        pytest.param(
            {"enforcement": {"limits": [{"tool": "rope__stretch", "max": 1, "windowSeconds": 3600}]}},
            "the limit of rope__stretch is reached",
            id="limited",
        ),
    ],
)
async def test_policy_applies_to_plugin_tools(agent, changes, says):
    found = of(Installed("rope", plugin(_done)))
    async with agent(plugins=[{"name": "rope"}], installed_plugins=found, **changes) as guest:
        await guest.say("Stretch rope")
        assert says in read_answer(await guest.say("Stretch rope"))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"approvals": {"tools": ["rope__stretch"]}}, id="that needs approval"),
        pytest.param({"approvals": {"tools": ["rope__strech"]}}, id="of which a misspelt one needs approval"),
        pytest.param({"enforcement": {"deny": ["rope__strech"]}}, id="of which a misspelt one is denied"),
    ],
)
async def test_approval_applies_to_plugin_tools(agent, states, changes):
    found = of(Installed("rope", plugin(_done)))
    async with agent(plugins=[{"name": "rope"}], installed_plugins=found, **changes) as guest:
        asked = await guest.say("Stretch rope")
        assert states(asked) == "input-required"
        assert "The rope is long." in read_answer(await guest.say("yes", taskId=asked["id"]))


async def test_audit_trail_records_plugin_calls(agent, mounted):
    found = of(Installed("rope", plugin(_done)))
    async with agent(plugins=[{"name": "rope"}], installed_plugins=found) as guest:
        await guest.say("Stretch rope")
    (line,) = read_audit_lines(mounted)
    assert (line["tool"], line["outcome"], line["result_summary"]) == ("rope__stretch", "ok", "The rope is long.")


async def test_plugin_call_has_its_context_and_plugin_is_closed(agent):
    calls, ends = [], []

    async def noting(call):
        calls.append(call)
        return "noted"

    async def close():
        ends.append("closed")

    def factory(config):
        return Plugin(tools=plugin(noting)(config).tools, close=close)

    async with agent(plugins=[{"name": "rope"}], installed_plugins=of(Installed("rope", factory))) as guest:
        task = await guest.by("client:other").say("Stretch rope")
    (call,) = calls
    assert (call.caller, call.task_id, call.context_id) == ("client:other", task["id"], task["contextId"])
    assert ends == ["closed"]


async def test_sub_agent_may_use_plugin_tools(agent):
    waiter = {"name": "waiter", "description": "Serves.", "instructions": "Serve.", "tools": ["rope__stretch"]}
    found = of(Installed("rope", plugin(_done)))
    async with agent(plugins=[{"name": "rope"}], installed_plugins=found, subAgents=[waiter]) as guest:
        assert "The rope is long." in read_answer(
            await guest.say('Give a task to the sub-agent waiter: "Stretch rope"')
        )
