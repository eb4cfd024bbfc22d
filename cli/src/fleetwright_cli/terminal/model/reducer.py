"""The state of a conversation after an event, and the changes that a view shows. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from fleetwright_cli.terminal.model.answers import with_answer
from fleetwright_cli.terminal.model.changes import (
    AskClosed,
    AskOpened,
    Change,
    ConnectionChanged,
    ContextChanged,
    CostChanged,
    FileReceived,
    MessageQueued,
    NoteShown,
    PhaseChanged,
    ReasoningShown,
    SendRefused,
    UserMessageShown,
)
from fleetwright_cli.terminal.model.events import (
    AnswerEvent,
    AskAnswered,
    CallsRecalled,
    ChatEvent,
    ConnectionEvent,
    FileEvent,
    MessageSent,
    SendFailed,
    SnapshotEvent,
    StatusEvent,
    TaskAccepted,
)
from fleetwright_cli.terminal.model.state import ChatState, TaskProgress
from fleetwright_cli.terminal.model.tool_cards import lost_calls, with_calls, with_tool
from fleetwright_cli.terminal.model.values import ENDED, WAITING, ContextUse, PendingAsk, ReceivedFile, TaskPhase

_Value = TypeVar("_Value")
Step = tuple[ChatState, tuple[Change, ...]]


def reduce(state: ChatState, event: ChatEvent, *, at: float = 0.0) -> Step:
    """Return the next state and the changes. Args: `at` is the time of the event in seconds."""
    match event:
        case MessageSent(message_id, text):
            return _sent(state, message_id, text)
        case TaskAccepted(message_id, task_id):
            text = state.unsent.get(message_id, "")
            progress = state.tasks.get(task_id) or TaskProgress(task_id=task_id, text=text)
            return _with(replace(state, unsent=_without(state.unsent, message_id)), progress), ()
        case SendFailed():
            return _failed(state, event)
        case CallsRecalled(task_id, calls):
            state, changes = with_calls(state, task_id, calls, at=at)
            state, lost = lost_calls(state, task_id)
            return state, (*changes, *lost)
        case SnapshotEvent():
            return _snapshot(state, event, at)
        case StatusEvent():
            return _status(state, event, at)
        case AnswerEvent():
            state, changes = with_answer(state, event)
            state, more = _with_context(state, event.context)
            return state, (*changes, *more)
        case FileEvent(task_id, file):
            return _with_files(state, task_id, (file,))
        case AskAnswered(ask, summary):
            return _closed(state, ask, summary)
        case ConnectionEvent(connected, reason):
            if connected == state.connected:
                return state, ()
            return replace(state, connected=connected), (ConnectionChanged(connected, reason),)


def _sent(state: ChatState, message_id: str, text: str) -> Step:
    if state.busy:
        return replace(state, unsent={**state.unsent, message_id: text}), (MessageQueued(text),)
    return replace(state, unsent={**state.unsent, message_id: ""}), (UserMessageShown(text),)


def _failed(state: ChatState, event: SendFailed) -> Step:
    """Forget a message, and the task that nobody follows any more, so that it does not seem to work for ever."""
    text = state.unsent.get(event.message_id, "")
    state = replace(state, unsent=_without(state.unsent, event.message_id))
    progress = state.tasks.get(event.task_id)
    if progress is None or progress.phase in WAITING:
        return state, (SendRefused(text, event.reason),)
    state, lost = lost_calls(state, event.task_id)
    state = replace(
        state,
        tasks=_without(state.tasks, event.task_id),
        spent=state.spent.plus(progress.cost) if progress.cost is not None else state.spent,
    )
    return state, (*lost, SendRefused(progress.text, event.reason, sent=True))


def _snapshot(state: ChatState, event: SnapshotEvent, at: float) -> Step:
    """Take over a whole task. Its answer continues the text that is already shown, after a lost connection too."""
    changes: list[Change] = []
    if event.status.task_id not in state.tasks and event.status.phase not in ENDED:
        state = _with(state, TaskProgress(task_id=event.status.task_id, phase=TaskPhase.SUBMITTED))
    if event.status.task_id in state.tasks:
        state, more = with_calls(state, event.status.task_id, event.calls, at=at)
        changes += more
    for answer in event.answers:
        state, more = with_answer(state, answer)
        changes += more
    state, more = _with_files(state, event.status.task_id, event.files)
    changes += more
    state, more = _status(state, event.status, at)
    return state, (*changes, *more)


def _with_files(state: ChatState, task_id: str, files: tuple[ReceivedFile, ...]) -> Step:
    progress = state.tasks.get(task_id)
    if progress is None:
        return state, ()
    unknown = [file for file in files if file.artifact_id not in progress.files]
    progress = replace(progress, files=progress.files | {file.artifact_id for file in unknown})
    return _with(state, progress), tuple(FileReceived(file) for file in unknown)


def _status(state: ChatState, event: StatusEvent, at: float) -> Step:
    progress = state.tasks.get(event.task_id)
    if progress is None:
        if event.phase in ENDED:
            return state, ()
        progress = TaskProgress(task_id=event.task_id)
    changes: list[Change] = []
    if progress.text and event.phase is not TaskPhase.SUBMITTED:
        changes.append(UserMessageShown(progress.text))
        progress = replace(progress, text="")
    if event.cost is not None:
        progress = replace(progress, cost=event.cost)
        changes.append(CostChanged(event.task_id, event.cost))
    before, progress = progress.phase, replace(progress, phase=event.phase)
    state = _with(state, progress)
    state, more = _details(state, event, at)
    changes += more
    state, more = _asked(state, event)
    changes += more
    if event.phase in ENDED:
        state, more = _ended(state, progress, event)
        changes += more
    elif before is not event.phase:
        changes.append(PhaseChanged(event.task_id, event.phase))
    return state, tuple(changes)


def _details(state: ChatState, event: StatusEvent, at: float) -> Step:
    changes: list[Change] = []
    state, more = _with_context(state, event.context)
    changes += more
    if event.reasoning:
        changes.append(ReasoningShown(event.reasoning))
    if event.tool is not None:
        state, more = with_tool(state, event.task_id, event.tool, at=at)
        changes += more
    elif event.fallback is not None:
        failed, following, reason = event.fallback
        changes.append(NoteShown(f"Model {failed} failed ({reason}); {following} continues."))
    elif event.text and event.phase is TaskPhase.WORKING and (event.context is None or event.context.compacting):
        changes.append(NoteShown(event.text))
    return state, tuple(changes)


def _with_context(state: ChatState, report: ContextUse | None) -> Step:
    if report is None:
        return state, ()
    context = report.after(state.context)
    if context == state.context:
        return state, ()
    return replace(state, context=context), (ContextChanged(context),)


def _asked(state: ChatState, event: StatusEvent) -> Step:
    """Open the ask of the status, and close an older one of the same task."""
    changes: list[Change] = []
    for ask in state.asks:
        if ask.task_id == event.task_id and ask != event.ask:
            state, more = _closed(state, ask, "decided elsewhere" if event.phase not in ENDED else "closed")
            changes += more
    if event.ask is not None and event.ask not in state.asks:
        state = replace(state, asks=(*state.asks, event.ask))
        changes.append(AskOpened(event.ask))
    return state, tuple(changes)


def _ended(state: ChatState, progress: TaskProgress, event: StatusEvent) -> Step:
    state, lost = lost_calls(state, progress.task_id)
    tasks = _without(state.tasks, progress.task_id)
    spent = state.spent.plus(progress.cost) if progress.cost is not None else state.spent
    state = replace(state, tasks=tasks, spent=spent, turns=state.turns + 1)
    reason = event.text if event.phase is not TaskPhase.COMPLETED else ""
    return state, (*lost, PhaseChanged(event.task_id, event.phase, reason, progress.truncated))


def _closed(state: ChatState, ask: PendingAsk, summary: str) -> Step:
    if ask not in state.asks:
        return state, ()
    return replace(state, asks=tuple(each for each in state.asks if each != ask)), (AskClosed(ask, summary),)


def _with(state: ChatState, progress: TaskProgress) -> ChatState:
    return replace(state, tasks={**state.tasks, progress.task_id: progress})


def _without(entries: Mapping[str, _Value], key: str) -> dict[str, _Value]:
    return {each: value for each, value in entries.items() if each != key}
