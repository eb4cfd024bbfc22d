"""Writes a headless run as text, as one JSON object, or as one JSON object a line."""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol, TextIO

from fleetwright_cli.safe_text import one_line, safe_text
from fleetwright_cli.terminal.headless.outcome import (
    ExitCode,
    RunOutcome,
    ask_document,
    cost_document,
    outcome_document,
)
from fleetwright_cli.terminal.model.changes import (
    AnswerReplaced,
    AskClosed,
    AskOpened,
    Change,
    ConnectionChanged,
    CostChanged,
    FileReceived,
    NoteShown,
    TextAdded,
    ToolChanged,
)
from fleetwright_cli.terminal.model.values import ToolCard

_LINE: Final = 200


class RunOutput(Protocol):
    def begin(self, about: Mapping[str, Any]) -> None: ...

    def change(self, change: Change) -> None: ...

    def end(self, outcome: RunOutcome) -> None: ...


class TextOutput:
    """The answer on standard output, and everything else on standard error.

    The answer is written at the end, because an agent may replace text that it has already streamed.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err

    def begin(self, about: Mapping[str, Any]) -> None:
        self._note(f"{about['agent']}: conversation {about['contextId']}")

    def change(self, change: Change) -> None:
        match change:
            case ToolChanged(card) if card.ok is not None:
                self._note(_tool_line(card))
            case NoteShown(text):
                self._note(one_line(text, _LINE))
            case FileReceived(file):
                self._note(f"file {one_line(file.name, _LINE)}, {file.size} bytes")
            case AskClosed(ask, summary):
                self._note(f"{one_line(ask.title or ask.tool or ask.kind, _LINE)}: {summary}")
            case ConnectionChanged(connected, reason):
                self._note("connected again" if connected else f"connection lost: {one_line(reason, _LINE)}")

    def end(self, outcome: RunOutcome) -> None:
        if outcome.answer:
            self._out.write(safe_text(outcome.answer).rstrip("\n") + "\n")
            self._out.flush()
        if outcome.reason:
            self._note(f"{outcome.state}: {outcome.reason}")
        if outcome.ask is not None:
            self._note(outcome.ask.prompt)
            self._note(f"task {outcome.task_id} waits for ask {outcome.ask.identity or '-'}")
            if outcome.code is ExitCode.INPUT_REQUIRED:
                self._note(f"to answer: add --task {outcome.task_id} and the answer")
        if outcome.truncated:
            self._note("the answer is truncated")
        if outcome.cost is not None:
            price = "no price" if outcome.cost.usd is None else f"{outcome.cost.usd:f} USD"
            self._note(f"{outcome.cost.input_tokens} tokens in, {outcome.cost.output_tokens} out, {price}")

    def _note(self, text: str) -> None:
        self._err.write(safe_text(text) + "\n")
        self._err.flush()


class JsonOutput:
    """One JSON object at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, about: Mapping[str, Any]) -> None:
        """The object at the end has everything."""

    def change(self, change: Change) -> None:
        """The object at the end has everything."""

    def end(self, outcome: RunOutcome) -> None:
        self._out.write(json.dumps(outcome_document(outcome), indent=2) + "\n")
        self._out.flush()


class StreamOutput:
    """One JSON object a line, as things happen: `init`, `text`, `reset`, `tool`, `file`, `ask`, `cost`, `result`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def begin(self, about: Mapping[str, Any]) -> None:
        self._write({"type": "init", **about})

    def change(self, change: Change) -> None:
        document = _stream_document(change)
        if document is not None:
            self._write(document)

    def end(self, outcome: RunOutcome) -> None:
        self._write(outcome_document(outcome))

    def _write(self, document: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(document) + "\n")
        self._out.flush()


def _stream_document(change: Change) -> dict[str, Any] | None:
    match change:
        case TextAdded(task_id, text):
            return {"type": "text", "taskId": task_id, "text": text}
        case AnswerReplaced(task_id):
            return {"type": "reset", "taskId": task_id}
        case ToolChanged(card):
            return _tool_document(card)
        case FileReceived(file):
            return {"type": "file", "name": file.name, "mediaType": file.media_type, "bytes": file.size}
        case AskOpened(ask):
            return {"type": "ask", **ask_document(ask)}
        case AskClosed(ask, summary):
            return {"type": "ask", "id": ask.identity, "taskId": ask.task_id, "decision": summary}
        case CostChanged(task_id, cost):
            return {"type": "cost", "taskId": task_id, **cost_document(cost)}
        case NoteShown(text):
            return {"type": "note", "text": text}
        case ConnectionChanged(connected, reason):
            return {"type": "connection", "connected": connected, **({"reason": reason} if reason else {})}
    return None


def _tool_document(card: ToolCard) -> dict[str, Any]:
    document: dict[str, Any] = {"type": "tool", "id": card.call_id, "taskId": card.task_id, "name": card.name}
    if card.parent:
        document["parent"] = card.parent
    if card.ok is None:
        phase = "unknown" if card.seconds is not None else "output" if card.output else "started"
        return {**document, "phase": phase, "arguments": card.arguments}
    phase = "completed" if card.ok else "failed"
    return {**document, "phase": phase, "result": card.result, "outputChars": card.characters}


def _tool_line(card: ToolCard) -> str:
    outcome = f"{card.characters} characters" if card.ok else f"failed: {one_line(card.result, 80)}"
    return f"{one_line(card.name, 60)} {one_line(card.arguments, 80)} -> {outcome}"
