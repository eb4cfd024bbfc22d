"""Blocks tool calls before they run: denied tools, arguments outside their limits, and calls beyond a rate limit.

The model receives the reason as the result of the blocked call, and the tool is not contacted.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_agent.config import enforcement as config
from fleetwright_agent.storage.call_windows import CallLimitWindow, CallWindows
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import ToolBlocked

EVERY_TOOL: Final = "*"


class EnforcementPolicy:
    def __init__(self, policy: config.Enforcement, windows: CallWindows) -> None:
        self._denied = frozenset(map(offered_name, policy.deny))
        self._rules = [(offered_name(rule.tool), dict(rule.json_schema)) for rule in policy.arguments]
        limits = [CallLimitWindow(_key(limit.tool), limit.max, limit.window_seconds) for limit in policy.limits]
        # The limit for all tools comes last, so that the reported reason is the most specific one.
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
        """Count the call against all of its limits. If a limit is reached, count nothing and return the reason."""
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
    """Return what is wrong, or an empty string. Arguments that cannot be checked are refused (fail closed)."""
    # Imported lazily: most agents have no rules for arguments.
    from fleetwright_agent.security.argument_schemas import UndecidableSchema, validation_error

    try:
        error = validation_error(arguments, schema, patterns=True)
    except UndecidableSchema as undecided:
        return f"its rule cannot be read: {undecided}"
    if error is None:
        return ""
    where = "/".join(str(part) for part in error.absolute_path) or "arguments"
    return f"{where}: {error.message[:200]}"
