"""The documents of A2A 0.1 for documents of A2A 1.0, as the guide to clients and dialects describes them."""

from collections.abc import Iterator, Sequence
from typing import Any

from fleetwright_a2a.extensions import CHOSEN_ID

STATES = {
    "TASK_STATE_UNSPECIFIED": ("unknown", "unknown"),
    "TASK_STATE_SUBMITTED": ("submitted", "submitted"),
    "TASK_STATE_WORKING": ("working", "working"),
    "TASK_STATE_COMPLETED": ("completed", "completed"),
    "TASK_STATE_FAILED": ("failed", "failed"),
    "TASK_STATE_CANCELED": ("canceled", "canceled"),
    "TASK_STATE_REJECTED": ("rejected", "failed"),
    "TASK_STATE_INPUT_REQUIRED": ("input-required", "input-required"),
    "TASK_STATE_AUTH_REQUIRED": ("auth-required", "input-required"),
}
"""The states of A2A 1.0, with their names in 0.3 and 0.1."""
INTERRUPTED = {"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"}
RESTING = INTERRUPTED | {f"TASK_STATE_{name}" for name in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")}


def v01_part(part: Any) -> Any:
    if "text" in part:
        return with_metadata({"type": "text", "text": part["text"]}, part)
    if "data" in part:
        is_object = isinstance(part["data"], dict)
        return with_metadata({"type": "data", "data": part["data"] if is_object else {"value": part["data"]}}, part)
    names = {"raw": "bytes", "url": "uri", "filename": "name", "mediaType": "mimeType"}
    return with_metadata({"type": "file", "file": {names[key]: part[key] for key in names if key in part}}, part)


def with_metadata(shown: Any, source: Any) -> Any:
    metadata = {name: value for name, value in source.get("metadata", {}).items() if name != CHOSEN_ID}
    return {**shown, "metadata": metadata} if metadata else shown


def v01_message(message: Any) -> Any:
    role = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}[message["role"]]
    return with_metadata({"role": role, "parts": [v01_part(part) for part in message["parts"]]}, message)


def v01_status(status: Any) -> Any:
    shown = {name: status[name] for name in ("timestamp",) if name in status}
    message = {"message": v01_message(status["message"])} if "message" in status else {}
    return {"state": STATES[status["state"]][1], **shown, **message}


def v01_artifact(artifact: Any, index: int, **more: Any) -> Any:
    named = {name: artifact[name] for name in ("name", "description") if name in artifact}
    parts = [v01_part(part) for part in artifact["parts"]]
    return with_metadata({**named, "parts": parts, "index": index, **more}, artifact)


def v01_task(task: Any) -> Any:
    shown = {"id": task["id"], "sessionId": task["contextId"], "status": v01_status(task["status"])}
    if "artifacts" in task and task["status"]["state"] not in INTERRUPTED:
        shown["artifacts"] = [v01_artifact(each, index) for index, each in enumerate(task["artifacts"])]
    return with_metadata({**shown, "history": [v01_message(each) for each in task.get("history", ())]}, task)


def v01_events(events: Sequence[Any], task_id: str) -> Iterator[Any]:
    """Yield the events of a stream in A2A 0.1; artifacts are numbered in the order of their first event.

    The stream ends with the first final event.
    """
    places: dict[str, int] = {}
    for event in events:
        ((kind, body),) = event.items()
        for artifact in (*body.get("artifacts", ()), *([body["artifact"]] if "artifact" in body else ())):
            places.setdefault(artifact["artifactId"], len(places))
        if kind == "artifactUpdate":
            last = {"lastChunk": True} if body.get("lastChunk") else {}
            index = places[body["artifact"]["artifactId"]]
            shown = v01_artifact(body["artifact"], index, append=body.get("append", False), **last)
            yield {"id": task_id, "artifact": shown}
        elif kind == "message":
            status = {"state": "completed", "message": v01_message(body), "timestamp": "1970-01-01T00:00:00Z"}
            yield {"id": task_id, "status": status, "final": True}
            return
        else:
            is_final = body["status"]["state"] in RESTING
            for each in body.get("artifacts", ()) if is_final else ():
                yield {"id": task_id, "artifact": v01_artifact(each, places[each["artifactId"]], append=False)}
            if is_final or kind == "statusUpdate":
                yield {"id": task_id, "status": v01_status(body["status"]), "final": is_final}
            if is_final:
                return
