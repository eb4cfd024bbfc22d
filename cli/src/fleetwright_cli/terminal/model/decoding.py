"""Decodes the JSON of A2A 1.0 responses to events. Pure.

The agent is not trusted: values of an unexpected type are ignored, and never end the client.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fleetwright_a2a.extensions import (
    ASK,
    CONTEXT,
    CONTEXT_FORK,
    CONTEXT_TITLE,
    COST,
    MODEL_FALLBACK,
    TOOL_CALL,
    TRUNCATED,
    WORKSPACE_UNDO,
)
from fleetwright_cli.terminal.model.events import (
    AnswerEvent,
    ChatEvent,
    FileEvent,
    SnapshotEvent,
    StatusEvent,
    ToolEvent,
)
from fleetwright_cli.terminal.model.values import (
    ContextUse,
    OfferedGrant,
    PendingAsk,
    ReceivedFile,
    TaskCost,
    TaskPhase,
)

Json = Mapping[str, Any]
_SKILL: Final = "https://proto-labs.ai/a2a/ext/skill-v1"
_MIME: Final = "application/vnd.protolabs.{}+json"
_MOST_CALLS: Final = 100
_EMPTY: Final[Json] = {}


def decode(result: Json) -> ChatEvent | None:
    """Return the event of one stream response, or None if this client does not know it."""
    if task := _object(result.get("task")):
        return snapshot(task)
    if update := _object(result.get("statusUpdate")):
        return _status(_text(update, "taskId"), _text(update, "contextId"), _object(update.get("status")))
    if update := _object(result.get("artifactUpdate")):
        return _artifact(update)
    return None


def snapshot(task: Json) -> SnapshotEvent:
    artifacts = [_object(each) for each in _list(task.get("artifacts"))]
    answers = [each for each in artifacts if _is_answer(each)]
    cost = next((found for each in reversed(answers) if (found := _cost(_metadata(each)))), None)
    status = _status(_text(task, "id"), _text(task, "contextId"), _object(task.get("status")))
    if cost is not None:
        status = replace(status, cost=cost)
    history = tuple(
        (_text(message, "role").removeprefix("ROLE_").lower(), _parts_text(message))
        for message in map(_object, _list(task.get("history")))
    )
    first = _metadata(next(map(_object, _list(task.get("history"))), _EMPTY))
    fork = _object(first.get(CONTEXT_FORK))
    return SnapshotEvent(
        status,
        tuple(_answer(status.task_id, each, append=False) for each in answers),
        tuple(_file(each) for each in artifacts if not _is_answer(each) and _SKILL not in _metadata(each)),
        history,
        _calls(artifacts, _object(_object(task.get("status")).get("message"))),
        _text(_object(first.get(WORKSPACE_UNDO)), "taskId"),
        _text(_object(first.get(CONTEXT_TITLE)), "title"),
        _text(_object(_metadata(task).get(CONTEXT_TITLE)), "title"),
        (_text(fork, "contextId"), _text(fork, "taskId")) if _text(fork, "contextId") else None,
    )


def _calls(artifacts: Sequence[Json], message: Json) -> tuple[ToolEvent, ...]:
    """Return the calls that the task keeps in its answer or its question: begin and end of each, in the short form."""
    contexts = [_object(_metadata(each).get(CONTEXT)) for each in (*artifacts, message)]
    newest = next((found for each in reversed(contexts) if (found := _list(each.get("toolCalls")))), ())
    calls: list[ToolEvent] = []
    for call in map(_object, newest[-_MOST_CALLS:]):
        begin = ToolEvent(
            _text(call, "toolCallId"),
            _text(call, "name"),
            "started",
            _text(call, "args"),
            parent=_text(call, "parentToolCallId"),
        )
        calls.append(begin)
        if (phase := _text(call, "phase")) in {"completed", "failed"}:
            calls.append(replace(begin, phase=phase, text="", characters=_number(call, "outputChars")))
    return tuple(calls)


def _status(task_id: str, context_id: str, status: Json) -> StatusEvent:
    try:
        phase = TaskPhase(_text(status, "state").removeprefix("TASK_STATE_").lower().replace("_", "-"))
    except ValueError:
        phase = TaskPhase.WORKING
    message = _object(status.get("message"))
    metadata = _metadata(message)
    waits = phase in {TaskPhase.INPUT_REQUIRED, TaskPhase.AUTH_REQUIRED}
    return StatusEvent(
        task_id,
        context_id,
        phase,
        _parts_text(message),
        _tool(_object(metadata.get(TOOL_CALL))),
        _ask(task_id, message, metadata) if waits else None,
        _cost(metadata),
        _fallback(_object(metadata.get(MODEL_FALLBACK))),
        _text(_data(message, "reasoning-v1"), "text"),
        _context(_object(metadata.get(CONTEXT))),
    )


def _artifact(update: Json) -> ChatEvent:
    artifact = _object(update.get("artifact"))
    task_id = _text(update, "taskId")
    if not _is_answer(artifact):
        return FileEvent(task_id, _file(artifact))
    return _answer(task_id, artifact, append=update.get("append") is True)


def _answer(task_id: str, artifact: Json, *, append: bool) -> AnswerEvent:
    metadata = _metadata(artifact)
    return AnswerEvent(
        task_id,
        _text(artifact, "artifactId"),
        _parts_text(artifact),
        append,
        _cost(metadata),
        metadata.get(TRUNCATED) is True,
        _context(_object(metadata.get(CONTEXT))),
    )


def _is_answer(artifact: Json) -> bool:
    """Return whether the artifact is the answer. Files of tools and learned skills carry their extension's data."""
    metadata = _metadata(artifact)
    named = any(_text(part, "filename") for part in _parts(artifact))
    return TOOL_CALL not in metadata and _SKILL not in metadata and not named


def _file(artifact: Json) -> ReceivedFile:
    part = next(iter(_parts(artifact)), _EMPTY)
    text = _text(part, "text")
    size = len(text.encode(errors="replace"))
    if not text and isinstance(raw := part.get("raw"), str):
        try:
            size = len(base64.b64decode(raw, validate=True))
        except binascii.Error:
            size = 0
    return ReceivedFile(
        _text(artifact, "artifactId"),
        _text(part, "filename") or _text(artifact, "name") or "file",
        _text(part, "mediaType"),
        text,
        size,
        _text(_object(_metadata(artifact).get(TOOL_CALL)), "name"),
    )


def _tool(value: Json) -> ToolEvent | None:
    if not value:
        return None
    phase = _text(value, "phase")
    field = {"started": "args", "output": "output", "completed": "result", "failed": "error"}.get(phase)
    if field is None:
        return None
    return ToolEvent(
        _text(value, "toolCallId"),
        _text(value, "name"),
        phase,
        _text(value, field),
        _number(value, "outputChars"),
        _text(value, "parentToolCallId"),
    )


def _ask(task_id: str, message: Json, metadata: Json) -> PendingAsk:
    about, shown = _object(metadata.get(ASK)), _data(message, "hitl-v1")
    kind = _text(about, "kind") or _text(shown, "kind") or "question"
    titles = {_text(grant, "key"): _text(grant, "title") for grant in map(_object, _list(shown.get("grants")))}
    keys = [key for key in _list(about.get("grants")) if isinstance(key, str)]
    arguments = about.get("arguments")
    return PendingAsk(
        task_id=task_id,
        identity=_text(about, "id"),
        kind=kind,
        prompt=_parts_text(message),
        tool=_text(about, "tool"),
        title=_text(shown, "title"),
        detail=_text(shown, "detail") or _text(shown, "description"),
        expires=_text(about, "expires"),
        grants=tuple(OfferedGrant(key, titles.get(key) or key) for key in keys),
        reviewed=_text(about, "by") == "Reviewers",
        arguments=arguments if isinstance(arguments, Mapping) else None,
        steps=tuple(step for step in map(_object, _list(shown.get("steps"))) if step),
    )


def _cost(metadata: Json) -> TaskCost | None:
    value = _object(metadata.get(COST))
    if not value:
        return None
    usage = _object(value.get("usage"))
    models = tuple(model for model in _list(value.get("models")) if isinstance(model, str))
    return TaskCost(
        input_tokens=_number(usage, "input_tokens"),
        output_tokens=_number(usage, "output_tokens"),
        usd=_dollars(value.get("costUsd")),
        model_calls=_number(value, "modelCalls"),
        tool_calls=_number(value, "toolCalls"),
        models=models,
        duration_ms=_number(value, "durationMs"),
    )


def _dollars(value: Any) -> Decimal | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() else None


def _fallback(value: Json) -> tuple[str, str, str] | None:
    return (_text(value, "from"), _text(value, "to"), _text(value, "reason")) if value else None


def _context(value: Json) -> ContextUse | None:
    if not value:
        return None
    return ContextUse(
        _text(value, "model"),
        _number(value, "promptTokens"),
        _number(value, "windowTokens"),
        _number(value, "compactions"),
        "compaction" in value,
    )


def _data(message: Json, name: str) -> Json:
    """Return the data part of a message with the MIME type of this name."""
    for part in _parts(message):
        if _text(_object(part.get("metadata")), "mimeType") == _MIME.format(name):
            return _object(part.get("data"))
    return _EMPTY


def _parts(source: Json) -> list[Json]:
    return [part for part in map(_object, _list(source.get("parts"))) if part]


def _parts_text(source: Json) -> str:
    return "".join(_text(part, "text") for part in _parts(source))


def _metadata(source: Json) -> Json:
    return _object(source.get("metadata"))


def _object(value: Any) -> Json:
    return value if isinstance(value, Mapping) else _EMPTY


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(source: Json, key: str) -> str:
    value = source.get(key)
    return value if isinstance(value, str) else ""


def _number(source: Json, key: str) -> int:
    value = source.get(key)
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
    return int(value) if good and value is not None else 0
