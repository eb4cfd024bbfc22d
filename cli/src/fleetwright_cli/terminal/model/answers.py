"""The text of an answer. An event may append to it, repeat it, or replace it. Pure."""

from dataclasses import replace

from fleetwright_cli.terminal.model.changes import AnswerReplaced, Change, CostChanged, TextAdded
from fleetwright_cli.terminal.model.events import AnswerEvent
from fleetwright_cli.terminal.model.state import ChatState


def with_answer(state: ChatState, event: AnswerEvent) -> tuple[ChatState, tuple[Change, ...]]:
    """Return the state with the text, and the text that is new.

    The last event of a streamed answer repeats all of it. A snapshot after a lost connection repeats it too. So a text
    that begins with the known one adds only its rest, and a text with which the known one ends adds nothing.
    """
    progress = state.tasks.get(event.task_id)
    if progress is None:
        return state, ()
    known = progress.answer if event.artifact_id == progress.artifact_id else ""
    changes: list[Change] = []
    if event.append:
        text, added = known + event.text, event.text
    elif event.text.startswith(known):
        text, added = event.text, event.text[len(known) :]
    elif event.text and known.endswith(event.text):
        text, added = known, ""
    else:
        changes.append(AnswerReplaced(event.task_id))
        text, added = event.text, event.text
    if added and known == "" and progress.answer and event.artifact_id != progress.artifact_id:
        added = f"\n\n{added}"
    if added:
        changes.append(TextAdded(event.task_id, added))
    if event.cost is not None and event.cost != progress.cost:
        changes.append(CostChanged(event.task_id, event.cost))
    progress = replace(
        progress,
        artifact_id=event.artifact_id,
        answer=text,
        cost=event.cost or progress.cost,
        truncated=progress.truncated or event.truncated,
    )
    return replace(state, tasks={**state.tasks, event.task_id: progress}), tuple(changes)
