"""The tools that change files: `write_file` and `edit_file`.

A conversation must have read the newest version of a file before it changes the file. An edit is repeatable: its
intended result is stored before it starts, so a repetition after a crash finds the file changed and changes nothing.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from fleetwright_agent.config.workspace import EditApproval, WorkspaceTool
from fleetwright_agent.protocol.frames import Artifact
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.workspace import FileVersion, WorkspaceStore
from fleetwright_agent.tools.port import Allow, Ask, Decision, Grant, Tool, ToolCall, ToolError, ToolResult
from fleetwright_agent.tools.workspace import schemas
from fleetwright_agent.tools.workspace.paths import real_path
from fleetwright_agent.tools.workspace.response_fields import items_of, number_of, text_of, version_of
from fleetwright_agent.tools.workspace.runner import RunnerError, WorkspaceRunner, turn_name

_MOST_CHARACTERS: Final = 2_000_000
_MOST_SHOWN: Final = 50_000
"""The largest number of characters of a change that a person is asked about."""
_MOST_CANDIDATES: Final = 6
_MOST_LINE: Final = 200
_MOST_CHANGES: Final = 1000
"""The number of changes that this process remembers. After a restart, a person is asked again."""
_DIFF: Final = "text/x-diff"
_NEW: Final = "new"
"""The state of a file that does not exist yet."""


class EditTools:
    def __init__(self, runner: WorkspaceRunner, store: WorkspaceStore, approval: EditApproval) -> None:
        self._runner = runner
        self._store = store
        self._asks = approval is EditApproval.ASK
        self._changes: OrderedDict[tuple[str, str, str, str], str] = OrderedDict()
        """The state of a file before each change, by owner, conversation, file and state after the change."""

    def tools(self) -> dict[WorkspaceTool, Tool]:
        where = schemas.path("Path of the file, relative to the root of the workspace")
        content = schemas.text("The complete new text of the file", most=_MOST_CHARACTERS)
        old = schemas.text("The text to replace, exactly as in the file", least=1, most=_MOST_CHARACTERS)
        new = schemas.text("The text that replaces it", most=_MOST_CHARACTERS)
        number = schemas.count("How often the text occurs; 1 by default", least=1, most=10_000)
        return {
            WorkspaceTool.WRITE_FILE: Tool(
                WorkspaceTool.WRITE_FILE,
                "Create a file in the workspace, or replace its whole text. If the file exists, read it first.",
                schemas.arguments({"path": where, "content": content}),
                self._run,
                self._decide,
                repeatable=True,
                action=CallerAction.USE_WRITE_TOOLS,
            ),
            WorkspaceTool.EDIT_FILE: Tool(
                WorkspaceTool.EDIT_FILE,
                "Replace a text in a file of the workspace. Read the file first. The text must occur exactly as often"
                " as stated; include enough lines around it to make it unique.",
                schemas.arguments({"path": where, "old_text": old, "new_text": new}, {"count": number}),
                self._run,
                self._decide,
                repeatable=True,
                action=CallerAction.USE_WRITE_TOOLS,
            ),
        }

    async def _decide(self, call: ToolCall) -> Decision:
        """Check the edit without changing anything, and ask with its diff. Raises: ToolError: it cannot be made."""
        if not self._asks:
            return Allow()
        real = await real_path(self._runner, str(call.arguments["path"]))
        if await self._intended(call, real) is not None:
            return Allow()  # A person has approved this call before a crash interrupted it.
        preview = await self._preview(call, real)
        shown = _preview_text(preview, call.arguments)
        if len(shown) > _MOST_SHOWN:
            raise ToolError(f"{real}: this change is larger than a person can read at once; make smaller changes")
        grant = Grant(f"file:{real}", f"all changes of {real} by this tool")
        return Ask(_question(real), shown, (grant,), _state(await self._last_read(call, real)))

    async def _run(self, call: ToolCall) -> ToolResult:
        real = await real_path(self._runner, str(call.arguments["path"]))
        intended = await self._intended(call, real)
        if self._asks and intended is None and call.approved != _question(real):
            raise ToolError(
                f"no person has approved a change of {real}, to which this path now leads; call the tool again"
            )
        if intended is not None and (now := await self._version(real)) is not None and now.digest == intended:
            self._record_read(call, real, now)
            return ToolResult(f"{real} has this change already.")
        seen = await self._last_read(call, real)
        if self._asks and intended is None and not self._is_approved(call, real, _state(seen)):
            raise ToolError(f"{real} has changed since a person was asked about this change; call the tool again")
        if intended is None:
            preview = await self._preview(call, real)
            turn = call.turn
            await self._store.begin_edit(turn.owner, turn.context_id, _key(call, real), version_of(preview).digest)
        answer = await self._send(call, real, seen, dry_run=False)
        after = version_of(answer)
        self._record_read(call, real, after)
        self._note_change(call, real, _state(seen), after.digest)
        return _result(real, answer)

    def _is_approved(self, call: ToolCall, real: str, state: str) -> bool:
        """Return True if the person has approved the call for this state of the file.

        A person may approve several edits of one file at once. The first edit then changes the file, and the others
        stay approved. An approval to replace the whole text does not stay.
        """
        for _ in range(_MOST_CHANGES):
            if state == call.approved_state:
                return True
            before = self._changes.get((call.turn.owner, call.turn.context_id, real, state))
            if before is None or "content" in call.arguments:
                return False
            state = before
        return False

    def _note_change(self, call: ToolCall, real: str, before: str, after: str) -> None:
        self._changes[call.turn.owner, call.turn.context_id, real, after] = before
        while len(self._changes) > _MOST_CHANGES:
            self._changes.popitem(last=False)

    async def _intended(self, call: ToolCall, real: str) -> str | None:
        """Return the digest of the file after this call, if the call has started before."""
        return await self._store.intended_digest(call.turn.owner, call.turn.context_id, _key(call, real))

    async def _preview(self, call: ToolCall, real: str) -> Mapping[str, Any]:
        """Return what the edit would do. Raises: ToolError: the file was not read, or the edit is not possible."""
        seen = await self._last_read(call, real)
        if seen is None and "content" not in call.arguments:
            raise _unread(real)
        answer = await self._send(call, real, seen, dry_run=True)
        if seen is None and answer.get("created") is not True:
            raise _unread(real)
        return answer

    async def _send(self, call: ToolCall, real: str, seen: FileVersion | None, *, dry_run: bool) -> Mapping[str, Any]:
        expected = None if seen is None else {"digest": seen.digest, "mtime_ns": seen.mtime_ns}
        turn = turn_name(call.turn.owner, call.turn.task_id)
        body = {"path": real, "expected": expected, "turn": turn, "dry_run": dry_run}
        try:
            if "content" in call.arguments:
                return await self._runner.call("write", {**body, "content": call.arguments["content"]})
            texts = {"old": call.arguments["old_text"], "new": call.arguments["new_text"]}
            return await self._runner.call("edit", {**body, **texts, "count": call.arguments.get("count", 1)})
        except RunnerError as refused:
            raise _explained(refused, real) from None

    async def _version(self, real: str) -> FileVersion | None:
        """Return the current version of a file, or None if there is no such text file."""
        try:
            return version_of(await self._runner.call("read", {"path": real, "offset": 0, "limit": 1}))
        except RunnerError:
            return None

    async def _last_read(self, call: ToolCall, real: str) -> FileVersion | None:
        return await self._store.last_read(call.turn.owner, call.turn.context_id, real)

    def _record_read(self, call: ToolCall, real: str, version: FileVersion) -> None:
        self._store.record_read(call.turn.owner, call.turn.context_id, real, version)


def _question(real: str) -> str:
    """Return the question for a person. It names the file, so an approval holds for no other file."""
    return f"Change {real if real.isprintable() else ascii(real)}?"


def _state(seen: FileVersion | None) -> str:
    """Return what an approval of a change is bound to: the text that the change replaces."""
    return _NEW if seen is None else seen.digest


def _key(call: ToolCall, real: str) -> str:
    """Identify the call by its place in the conversation, its file, and its arguments, which may have changed."""
    arguments = json.dumps({"arguments": call.arguments, "real": real}, sort_keys=True)
    place = f"{call.turn.task_id}\n{call.turn.sub_agent}\n{call.key}\n{arguments}"
    return hashlib.sha256(place.encode(errors="surrogatepass")).hexdigest()


def _unread(real: str) -> ToolError:
    return ToolError(f"this conversation has not read {real}; read it with read_file before you change it")


def _explained(refused: RunnerError, real: str) -> ToolError:
    if refused.code == "changed":
        return ToolError(f"{real} has changed since this conversation read it; read it again before you change it")
    lines = [
        f"line {number_of(each, 'line')}: {text_of(each, 'text')[:_MOST_LINE]}{_differs(each)}"
        for each in items_of(refused.details, "candidates")[:_MOST_CANDIDATES]
    ]
    return ToolError("\n".join([str(refused), *lines])) if lines else refused


def _differs(candidate: Mapping[str, Any]) -> str:
    at = candidate.get("differs_at")
    return f" (differs at {at!s:.200})" if at is not None else ""


def _preview_text(answer: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return the diff, or all arguments too if the diff is not complete: a person must see everything that changes."""
    diff = text_of(answer, "diff")
    if diff and answer.get("diff_truncated") is not True:
        return diff
    return f"{diff}\nThe whole call: {json.dumps(dict(arguments), ensure_ascii=False)}".lstrip()


def _result(real: str, answer: Mapping[str, Any]) -> ToolResult:
    diff = text_of(answer, "diff")
    if answer.get("applied") is False:
        return ToolResult(f"{real} has this change already.")
    done = "Created" if answer.get("created") is True else "Changed"
    how = f" ({strategy} match)" if (strategy := text_of(answer, "strategy")) not in ("", "exact") else ""
    files = (Artifact(f"{real}.diff", _DIFF, diff),) if diff else ()
    return ToolResult(f"{done} {real}{how}.\n{diff}".rstrip(), files)
