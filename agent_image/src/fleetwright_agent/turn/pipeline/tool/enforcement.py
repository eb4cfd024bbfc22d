"""What no turn may do, decided before a call runs: tools that are denied, arguments that are out of bounds, and how
often (PA-080). A call that is blocked is told to the model as a result and reaches nobody.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_agent.config import enforcement as config
from fleetwright_agent.security.argument_schemas import Undecided, misfit
from fleetwright_agent.storage.sqlite.call_windows import CallWindows, Window
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import ToolBlocked

EVERY_TOOL: Final = "*"


class Enforcement:
    def __init__(self, policy: config.Enforcement, windows: CallWindows) -> None:
        self._denied = frozenset(map(offered_name, policy.deny))
        self._rules = [(offered_name(rule.tool), dict(rule.json_schema)) for rule in policy.arguments]
        limits = [Window(_key(limit.tool), limit.max, limit.window_seconds) for limit in policy.limits]
        # The narrow ones before the one of all tools: the reason that is told is the nearest.
        self._limits = sorted(limits, key=lambda limit: limit.key == EVERY_TOOL)
        self._windows = windows

    def denies(self, tool: str) -> bool:
        return tool in self._denied

    def refusal(self, tool: str, arguments: Mapping[str, Any]) -> ToolBlocked | None:
        if self.denies(tool):
            return ToolBlocked(f"{tool} is not allowed for this agent; go on without it")
        for name, schema in self._rules:
            if name == tool and (wrong := _misfit(arguments, schema)):
                return ToolBlocked(f"this agent may not call {tool} so: {wrong}; do not try to get around it")
        return None

    async def admit(self, tool: str) -> ToolBlocked | None:
        """Counts the call against all of its limits, or against none."""
        limits = [limit for limit in self._limits if limit.key in {tool, EVERY_TOOL}]
        if not limits or (full := await self._windows.admit(limits)) is None:
            return None
        limit, wait = full
        which = "tools" if limit.key == EVERY_TOOL else tool
        every = f"{limit.most} calls in {limit.seconds} s"
        return ToolBlocked(f"the limit of {which} is reached ({every}); there is room in {wait:.0f} s")


def _key(tool: str) -> str:
    return tool if tool == EVERY_TOOL else offered_name(tool)


def _misfit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Empty where they fit. What cannot be decided does not fit: this is a lock, not advice."""
    try:
        error = misfit(arguments, schema, patterns=True)
    except Undecided as undecided:
        return f"its rule cannot be read: {undecided}"
    if error is None:
        return ""
    where = "/".join(str(part) for part in error.absolute_path) or "arguments"
    return f"{where}: {error.message[:200]}"
