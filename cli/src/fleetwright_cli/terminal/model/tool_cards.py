"""The tool calls of a conversation, and the todo list that one of them writes. Pure."""

from dataclasses import replace
from typing import Final

from fleetwright_cli.terminal.model.changes import Change, TodosChanged, ToolChanged
from fleetwright_cli.terminal.model.events import ToolEvent
from fleetwright_cli.terminal.model.state import ChatState
from fleetwright_cli.terminal.model.todos import TOOL, todos_of
from fleetwright_cli.terminal.model.values import ToolCard

_KEPT: Final = 200
_LONGEST_OUTPUT: Final = 64_000


def with_tool(state: ChatState, task_id: str, event: ToolEvent, *, at: float) -> tuple[ChatState, tuple[Change, ...]]:
    known = next((card for card in reversed(state.cards) if card.call_id == event.call_id), None)
    if known is None:
        known = ToolCard(
            call_id=event.call_id,
            name=event.name,
            task_id=task_id,
            number=state.calls + 1,
            parent=event.parent,
            started=at,
        )
        state = replace(state, calls=state.calls + 1, cards=(*state.cards[-_KEPT + 1 :], known))
    card = _after(known, event, at)
    state = replace(state, cards=tuple(card if each is known else each for each in state.cards))
    changes: list[Change] = [ToolChanged(card)]
    if event.phase == "started" and event.name == TOOL and (todos := todos_of(event.text)) is not None:
        state = replace(state, todos=todos)
        changes.append(TodosChanged(todos))
    return state, tuple(changes)


def with_calls(
    state: ChatState, task_id: str, calls: tuple[ToolEvent, ...], *, at: float
) -> tuple[ChatState, tuple[Change, ...]]:
    """Add the calls of a task that this client has not seen, and the ends that it has missed."""
    changes: list[Change] = []
    for call in calls:
        known = next((card for card in reversed(state.cards) if card.call_id == call.call_id), None)
        if known is not None and (call.phase == "started" or known.ok is not None):
            continue
        state, more = with_tool(state, task_id, call, at=at)
        changes += more
    return state, tuple(changes)


def _after(card: ToolCard, event: ToolEvent, at: float) -> ToolCard:
    match event.phase:
        case "started":
            return replace(card, arguments=event.text)
        case "output":
            return replace(card, output=(card.output + event.text)[-_LONGEST_OUTPUT:])
        case _:
            return replace(
                card,
                ok=event.phase == "completed",
                result=event.text,
                characters=event.characters,
                seconds=max(0.0, at - card.started),
            )


def lost_calls(state: ChatState, task_id: str) -> tuple[ChatState, tuple[Change, ...]]:
    """End the calls of a task that has ended, but whose results have not arrived. Their outcome stays unknown."""
    running = [card for card in state.cards if card.task_id == task_id and card.ok is None and card.seconds is None]
    ended = {card.call_id: replace(card, seconds=0.0) for card in running}
    cards = tuple(ended.get(card.call_id, card) for card in state.cards)
    return replace(state, cards=cards), tuple(ToolChanged(card) for card in ended.values())
