"""Finds the configured plugins among the installed packages, and loads each of them once.

If a plugin fails to load, only its own tools are missing. The failure is logged, counted and shown on the status page.
Installed plugins that the configuration does not name are not loaded.
"""

import asyncio
import copy
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from fleetwright_agent.config.tools import PluginConfig as Declared
from fleetwright_agent.plugins.api import GROUP, Plugin
from fleetwright_agent.plugins.offering import InvalidPlugin, plugin_tools
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import Tool, ToolContext

_log = logging.getLogger(__name__)
_LOAD_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0
_MOST_OF_MESSAGE: Final = 300


def installed_entry_points() -> Iterable[EntryPoint]:
    """Return the plugin entry points of all installed packages."""
    return entry_points(group=GROUP)


@dataclass(slots=True)
class _Loaded:
    tools: tuple[Tool, ...] = ()
    plugin: Plugin | None = None
    problem: str = ""


class Plugins:
    name = "plugins"

    def __init__(
        self,
        declared: Sequence[Declared],
        metrics: Metrics,
        *,
        installed: Callable[[], Iterable[EntryPoint]] = installed_entry_points,
        load_seconds: float = _LOAD_SECONDS,
    ) -> None:
        """Args: `load_seconds` is the time limit for each plugin, including its import."""
        self._declared = tuple(declared)
        self._metrics = metrics
        self._installed = installed
        self._load_seconds = load_seconds
        self._loading = threading.Lock()
        self._loaded: Mapping[str, _Loaded] | None = None

    def begin(self) -> None:
        """Load the plugins on a daemon thread, which does not delay the exit of the process."""
        if self._declared:
            threading.Thread(target=self.load, name="plugins", daemon=True).start()

    def load(self) -> None:
        """Load the plugins and block until each has loaded or failed. Later and concurrent calls reuse the result."""
        with self._loading:
            if self._loaded is None:
                self._loaded = {declared.name: self._load(declared) for declared in self._declared}

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:  # noqa: ARG002 - all turns have the same tools
        """Return the tools of the loaded plugins, once all of them have loaded or failed."""
        if self._loaded is None:
            await asyncio.to_thread(self.load)
        return tuple(tool for loaded in (self._loaded or {}).values() for tool in loaded.tools)

    def report(self) -> list[dict[str, Any]]:
        """Return the state of each plugin for the status page; empty until all have loaded or failed."""
        return [
            {"name": name, "loaded": loaded.plugin is not None, "tools": len(loaded.tools), "message": loaded.problem}
            for name, loaded in (self._loaded or {}).items()
        ]

    async def close(self) -> None:
        for name, loaded in (self._loaded or {}).items():
            plugin, loaded.plugin = loaded.plugin, None
            if plugin is None:
                continue
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await plugin.close()
            except Exception:
                _log.exception("a plugin could not be closed", extra={"plugin": name})

    def _load(self, declared: Declared) -> _Loaded:
        loaded = _Loaded(problem=f"it did not load within {self._load_seconds:g} s")
        # Use a daemon thread: third-party code may hang or call `exit`, and must not block the exit of the process.
        thread = threading.Thread(
            target=self._try, args=(declared, loaded), name=f"plugin-{declared.name}", daemon=True
        )
        thread.start()
        thread.join(self._load_seconds)
        late = thread.is_alive()
        result = _Loaded(problem=loaded.problem) if late else loaded
        self._metrics.plugin_loaded.labels(declared.name).set(int(result.plugin is not None))
        if result.plugin is None:
            _log.error("plugin %s: %s", declared.name, result.problem)
        return result

    def _try(self, declared: Declared, loaded: _Loaded) -> None:
        try:
            plugin = _factory(declared.name, self._installed())(copy.deepcopy(dict(declared.config)))
            tools = plugin_tools(declared.name, plugin)
        except InvalidPlugin as error:
            loaded.problem = _short(str(error))
        except (Exception, SystemExit) as error:
            _log.error("plugin %s could not be loaded", declared.name, exc_info=error)
            loaded.problem = _short(f"it could not be loaded: {type(error).__name__}: {error}")
        else:
            loaded.tools, loaded.plugin, loaded.problem = tools, plugin, ""


def _factory(name: str, installed: Iterable[EntryPoint]) -> Any:
    found = [each for each in installed if each.name == name]
    if not found:
        raise InvalidPlugin(f"no installed package has this entry point in {GROUP}; add the package to spec.image")
    if len({each.value for each in found}) > 1:
        raise InvalidPlugin(f"{len(found)} installed packages have this entry point in {GROUP}; keep one of them")
    return found[0].load()


def _short(text: str) -> str:
    return " ".join(text.split())[:_MOST_OF_MESSAGE]
