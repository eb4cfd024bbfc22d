"""The tool journal, the call windows, the grants and the tasks of other agents, in memory."""

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fleetwright_agent.storage.call_windows import CallLimitWindow
from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.grants import StoredGrant
from fleetwright_agent.storage.memory.tables import MemoryTables, StoredThread, committed
from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, QuestionKey
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall


class MemoryToolJournal:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def put(self, thread: str, call: str, state: CallState, body: Any = None) -> None:
        self._tables.thread(thread).calls[call] = JournalEntry(state, json.loads(json.dumps(body)))

    def done(self, thread: str, call: str, body: Any) -> "asyncio.Future[None]":
        self._tables.thread(thread).calls[call] = JournalEntry(CallState.DONE, json.loads(json.dumps(body)))
        return committed()

    async def settled(self, thread: str) -> None:
        """Return at once: every write is done when its call returns."""

    async def begin(self, thread: str, call: str, begun: StartedCall) -> None:
        await self.put(thread, call, CallState.BEGUN, {"tool": begun.tool, "arguments": dict(begun.arguments)})

    async def get(self, thread: str, call: str) -> JournalEntry | None:
        return self._calls(thread).get(call)

    async def settle(self, thread: str, call: str, body: Any) -> None:
        calls = self._tables.thread(thread).calls
        for each in [each for each, entry in calls.items() if entry.state is CallState.BEGUN]:
            del calls[each]
        self.done(thread, call, body)

    async def begun(self, thread: str, *, below: str) -> list[StartedCall]:
        names = dict.fromkeys([thread, *self._tables.below(below)])
        found = [entry.body for name in names for entry in self._calls(name).values() if entry.state is CallState.BEGUN]
        return [StartedCall(body["tool"], body["arguments"]) for body in sorted(found, key=json.dumps)]

    def forget(self, thread: str) -> None:
        self._calls(thread).clear()

    def _calls(self, thread: str) -> dict[str, JournalEntry]:
        return self._tables.threads.get(thread, StoredThread()).calls


class MemoryCallWindows:
    def __init__(self, tables: MemoryTables, *, now_ns: Callable[[], int]) -> None:
        self._tables = tables
        self._now_ns = now_ns

    async def admit(self, windows: Sequence[CallLimitWindow]) -> tuple[CallLimitWindow, float] | None:
        now = self._now_ns()
        for window in windows:
            # After the clock was set back, calls in the future must not block a tool.
            times = [at for at in self._tables.call_times.get(window.key, []) if now - _span(window) < at <= now]
            if len(times) >= window.most:
                return window, (times[-window.most] + _span(window) - now) / 1e9
        for key in dict.fromkeys(window.key for window in windows):
            self._tables.call_times.setdefault(key, []).append(now)
        return None


def _span(window: CallLimitWindow) -> int:
    return window.seconds * 1_000_000_000


class MemoryGrantStore:
    def __init__(self, tables: MemoryTables, *, now: Callable[[], float]) -> None:
        self._tables = tables
        self._now = now

    async def put(self, owner: str, context_id: str, tool: str, keys: Collection[str]) -> None:
        thread = self._tables.thread(conversation(owner, context_id))
        thread.grants.update({(tool, key): self._now() for key in keys})

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        thread = self._tables.threads.get(conversation(owner, context_id), StoredThread())
        return frozenset(key for of, key in thread.grants if of == tool)

    async def of(self, owner: str, context_id: str = "") -> list[StoredGrant]:
        found: list[StoredGrant] = []
        for name in self._tables.below(owner):
            _, context, *task = name.split("\n")
            # Skip the separate threads of tasks, which have copies of the grants of their conversations.
            if not task and context_id in ("", context):
                grants = sorted(self._tables.threads[name].grants.items())
                found += [StoredGrant(context, tool, key, at) for (tool, key), at in grants]
        return found


class MemoryOpenQuestions:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def put(self, question: OpenQuestion) -> None:
        self._tables.questions.pop(question.place, None)
        self._tables.questions[question.place] = question

    async def take(self, place: QuestionKey) -> OpenQuestion | None:
        return self._tables.questions.pop(place, None)

    async def remove(self, question: OpenQuestion) -> bool:
        if self._tables.questions.get(question.place) != question:
            return False
        del self._tables.questions[question.place]
        return True

    async def of(self, owner: str, task_id: str) -> list[OpenQuestion]:
        return [each for each in await self.all() if (each.place.owner, each.asked_in) == (owner, task_id)]

    async def all(self) -> list[OpenQuestion]:
        return list(self._tables.questions.values())


class MemoryDelegatedTasks:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def put(self, task: DelegatedTask) -> None:
        self._tables.delegated.setdefault(task)

    async def of(self, owner: str, context_id: str) -> list[DelegatedTask]:
        return [each for each in self._tables.delegated if (each.owner, each.context_id) == (owner, context_id)]

    async def remove(self, task: DelegatedTask) -> None:
        self._tables.delegated.pop(task, None)
