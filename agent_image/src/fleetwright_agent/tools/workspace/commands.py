"""The tool `bash`, which runs a command in the workspace and streams its output.

The policy in `shell/` allows a command, asks a person about it, or refuses it. A command that only reads runs as a list
of arguments, without a shell. No command runs twice: after a crash its outcome is unknown.
"""

import hashlib
import uuid
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final, cast

from fleetwright_agent.config.workspace import Shell, ShellApproval, WorkspaceTool
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.port import Allow, Ask, Decision, Deny, Grant, Tool, ToolBlocked, ToolCall, ToolError
from fleetwright_agent.tools.workspace import schemas
from fleetwright_agent.tools.workspace.output import CommandOutput
from fleetwright_agent.tools.workspace.paths import real_paths
from fleetwright_agent.tools.workspace.response_fields import number_of, text_of
from fleetwright_agent.tools.workspace.runner import RunnerError, WorkspaceRunner
from fleetwright_agent.tools.workspace.shell.git import unsafe_key
from fleetwright_agent.tools.workspace.shell.tier import ShellAllow, ShellDeny, grant_key, tier, unreadable

_MOST_COMMAND: Final = 20_000
_LOST: Final = "it is unknown whether the command had its effects, and it is not run again; check before you repeat it"
_UNREAD: Final = "this agent runs commands without approval, so it must be able to read them, and this one it cannot"
_UNSAFE: Final = "the configuration of the repository names filters or other folders, or cannot be read"
_WHY: Final = {"memory": "it used too much memory", "processes": "it started too many processes"}


class CommandTools:
    def __init__(self, runner: WorkspaceRunner, approval: ShellApproval, shell: Shell) -> None:
        self._runner = runner
        self._approval = approval
        self._shell = shell

    def tools(self) -> dict[WorkspaceTool, Tool]:
        command = schemas.text("The command, for sh -c, in the root of the workspace", least=1, most=_MOST_COMMAND)
        return {
            WorkspaceTool.BASH: Tool(
                WorkspaceTool.BASH,
                "Run a command in the workspace, and return its output. Simple commands that only read run at once;"
                f" others need approval. A command is ended after {self._shell.timeout_seconds} s.",
                schemas.arguments({"command": command}),
                self._run,
                self._decide,
                action=CallerAction.USE_WRITE_TOOLS,
            )
        }

    async def _decide(self, call: ToolCall) -> Decision:
        command = str(call.arguments["command"])
        found = tier(command, self._shell.allow)
        if isinstance(found, ShellDeny):
            return Deny(_never(found))
        if self._approval is ShellApproval.AUTO:
            return Deny(f"{_UNREAD}: {why}") if (why := unreadable(command)) else Allow()
        reason = "commands of this agent need approval"
        if self._approval is ShellApproval.TIERED:
            reason = await self._outside(found) if isinstance(found, ShellAllow) else found.reason
            if not reason:
                return Allow()
        grant = Grant(grant_key(command), "exactly this command")
        return Ask(f"Run this command ({reason})?", command, (grant,))

    async def _run(self, call: ToolCall) -> str:
        command = str(call.arguments["command"])
        found = tier(command, self._shell.allow)
        if isinstance(found, ShellDeny):
            raise ToolBlocked(_never(found))
        # The files may have changed since the decision, so a command without an approval is checked again.
        reason = await self._outside(found) if isinstance(found, ShellAllow) else found.reason
        if isinstance(found, ShellAllow) and not reason:
            what: dict[str, Any] = {"argv": list(found.argv), "environment": dict(found.environment)}
        elif self._approval is ShellApproval.AUTO or call.approved is not None:
            what = {"command": command}
        else:
            raise ToolError(f"this command needs approval after all ({reason}); call the tool again to ask for it")
        return await self._executed({**what, "id": _identity(call)}, call)

    async def _outside(self, found: ShellAllow) -> str:
        """Return why the command may not run without approval after all, or an empty string."""
        if found.paths:
            real = await real_paths(self._runner, found.paths)
            outside = [path for path, each in zip(found.paths, real, strict=True) if not each.inside]
            if outside:
                return f"{outside[0]} is outside the workspace"
        if found.check:
            return await self._failed_check(found)
        return ""

    async def _failed_check(self, found: ShellAllow) -> str:
        """Run the harmless command that lists the configuration, and return why git may run programs after all."""
        output, end = CommandOutput(), None
        wanted = {"id": f"check-{uuid.uuid4().hex}", "argv": list(found.check)}
        events = self._runner.execute({**wanted, **self._limits(), "environment": {**found.environment, "LC_ALL": "C"}})
        async with aclosing(cast("Any", events)) as running:
            async for event in running:
                output.add(event)
                end = event.get("end", end)
        complete = isinstance(end, Mapping) and end.get("exit") == 0 and not output.stdout.cut
        keys = output.stdout.text()
        return "" if complete and keys.endswith("\0") and not unsafe_key(keys) else _UNSAFE

    def _limits(self) -> dict[str, Any]:
        return {"cwd": ".", "timeout_seconds": self._shell.timeout_seconds}

    async def _executed(self, wanted: Mapping[str, Any], call: ToolCall) -> str:
        output = CommandOutput()
        try:
            events = self._runner.execute({"environment": {}, **wanted, **self._limits()})
            async with aclosing(cast("Any", events)) as running:
                async for event in running:
                    if event.get("lost") is True:
                        break
                    if isinstance(end := event.get("end"), Mapping):
                        return _result(end, output)
                    if text := output.add(event):
                        call.write(text)
        except RunnerError as refused:
            if refused.code == "exists":
                raise ToolError(f"this command was started before; {_LOST}") from None
            raise
        raise ToolError(f"the workspace stopped answering; {_LOST}\n{output.partial()}".rstrip())


def _never(found: ShellDeny) -> str:
    return f"this command never runs: {found.reason}; do not try to get around it"


def _result(end: Mapping[str, Any], output: CommandOutput) -> str:
    if end.get("timed_out") is True:
        raise ToolError(f"the command was ended after its time limit. Its output so far:\n{output.partial()}".rstrip())
    if name := text_of(end, "stopped") or text_of(end, "signal"):
        why = _WHY.get(name, name[:32])
        raise ToolError(f"the command was ended: {why}. Its output so far:\n{output.partial()}".rstrip())
    code = number_of(end, "exit")
    text = output.whole()
    if not code:
        return text or "[The command succeeded without output.]"
    return f"[The command ended with exit code {code}.]\n{text}".rstrip()


def _identity(call: ToolCall) -> str:
    """Return the id under which the runner runs this call at most once."""
    turn = call.turn
    place = f"{turn.owner}\n{turn.context_id}\n{turn.task_id}\n{turn.sub_agent}\n{call.key}"
    return hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()[:32]
