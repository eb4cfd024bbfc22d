"""Tasks that grow by pieces: the result equals a plain fold, and memory grows only with the text."""

from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskArtifactUpdateEvent, TaskState

from fleetwright_a2a.task_builder import GrowingTask, replay
from fleetwright_a2a.task_events import Event, agent_message, fold, status_event

_PIECES = 1500
_MOST_BYTES = 32 * 2**20
"""A copy of the text for every piece would take 180 MB."""


def _piece(*parts: Part, artifact: str = "a", append: bool = True) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(
        task_id="t", context_id="c", artifact=Artifact(artifact_id=artifact, parts=parts), append=append
    )


def _text(text: str, **more: str) -> Part:
    return Part(text=text, **more)


def _marked(text: str) -> TaskArtifactUpdateEvent:
    event = _piece(_text(text))
    event.artifact.metadata["cut"] = True
    return event


STATUS = status_event("t", "c", TaskState.TASK_STATE_WORKING, at_ns=1, message=agent_message("busy", message_id="m"))
FIRST = _piece(_text("one "), append=False)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([FIRST, _piece(_text("two ")), _piece(_text("three"))], id="text goes on"),
        pytest.param([_piece(_text("one ")), _piece(_text("two"))], id="a first piece that appends"),
        pytest.param([FIRST, _piece(_text("two")), _piece(_text("all"), append=False)], id="the whole replaces pieces"),
        pytest.param([FIRST, _piece(_text("two")), _piece(_text("{}", media_type="application/json"))], id="type"),
        pytest.param([FIRST, _piece(_text("two")), _piece(Part(raw=b"x")), _piece(_text("three"))], id="bytes"),
        pytest.param([FIRST, _piece(_text("two")), _marked("three"), _piece(_text("four"))], id="metadata of a piece"),
        pytest.param([FIRST, _piece(_text("two"), _text("three")), _piece(_text("four"))], id="two parts in one piece"),
        pytest.param([FIRST, _piece(_text("x"), artifact="b"), _piece(_text("two"))], id="two artifacts in turn"),
        pytest.param([FIRST, STATUS, _piece(_text("two")), agent_message("more", message_id="n")], id="other events"),
    ],
)
def test_growing_task_equals_the_plain_fold(events: list[Event]):
    plain, growing = Task(id="t", context_id="c"), GrowingTask(Task(id="t", context_id="c"))
    for event in events:
        fold(plain, event)
        growing.fold(event)
        assert growing.copy() == plain
        assert growing.current() == plain
    assert replay(Task(id="t", context_id="c"), events) == plain


def test_growing_task_appends_without_copying_the_text():
    growing = GrowingTask(Task(id="t", context_id="c"))
    growing.fold(FIRST)
    before = _resident()
    for _ in range(_PIECES):
        growing.fold(_piece(_text("x" * 160)))
    assert _resident() - before < _MOST_BYTES
    assert len(growing.copy().artifacts[0].parts[0].text) == len("one ") + 160 * _PIECES


def _resident() -> int:
    (line,) = (each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
