"""Plugins and tools that hang: a configured timeout ends the wait."""

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.entry_points import Installed
from tests.support.machine import ceiling

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.tools import PluginConfig as Declared
from fleetwright_agent.plugins.api import Plugin, PluginTool
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.plugins.offering import plugin_tools
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext

REQUEST = TurnRequest("o", "c", "t", "x")
CALL = ToolCall({}, REQUEST, lambda _: None)
CONTEXT = TurnContext(REQUEST, lambda _: None, {})


async def _run(_):
    return "done"


def rope(run=_run):
    return Plugin(tools=(PluginTool(name="pull", description="Pull.", parameters={}, run=run),))


def loading(factory, **seams):
    metrics = Metrics(CollectorRegistry())
    return Plugins([Declared(name="rope")], metrics, installed=lambda: [Installed("rope", factory)], **seams)


async def test_plugin_load_timeout_discards_a_late_result():
    release, came = threading.Event(), threading.Event()

    def hanging(config):
        release.wait(ceiling())
        came.set()
        return rope()

    plugins = loading(hanging, load_seconds=0.05)
    assert await plugins.tools(CONTEXT) == ()
    release.set()
    assert came.wait(ceiling())
    (said,) = plugins.report()
    assert (said["loaded"], said["message"]) == (False, "it did not load within 0.05 s")
    assert await plugins.tools(CONTEXT) == ()


def test_plugin_is_loaded_once_under_concurrency():
    loads = []

    def factory(config):
        loads.append(1)
        return rope()

    plugins = loading(factory)
    threads = [threading.Thread(target=plugins.load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]


def test_plugin_report_is_empty_before_loading():
    assert loading(lambda config: rope()).report() == []


async def test_plugin_close_failure_is_logged_and_ignored(caplog):
    async def broken():
        raise RuntimeError("stuck")

    plugins = loading(lambda config: Plugin(tools=(), close=broken))
    plugins.load()
    await plugins.close()
    assert "a plugin could not be closed" in caplog.text


async def test_plugin_call_timeout_is_a_tool_error():
    async def hanging(_):
        await asyncio.Event().wait()

    (tool,) = plugin_tools("rope", rope(hanging), seconds=0.01)
    with pytest.raises(ToolError, match=r"pull did not answer within 0\.01 s"):
        await tool.run(CALL)


def test_config_refuses_a_plugin_and_a_server_of_one_name(config_with):
    with pytest.raises(ValueError, match="plugins and mcpServers both have 'tools'"):
        config_with(plugins=[{"name": "tools"}], mcpServers=[{"name": "tools", "url": "http://tools"}])


@pytest.fixture
def config_with(documents):
    return lambda **changes: AgentConfig.model_validate(documents(**changes))
