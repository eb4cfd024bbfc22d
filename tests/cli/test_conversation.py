"""The reply that the command line shows for a task."""

from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskState, TaskStatus

from fleetwright_a2a.extensions import TOOL_CALL
from fleetwright_cli.dev.conversation import reply_of


def test_reply_names_the_files_of_tools_after_the_answer():
    file = Artifact(artifact_id="f", name="cut.diff", parts=[Part(text="- long\n+ short", filename="cut.diff")])
    file.metadata.update({TOOL_CALL: {"toolCallId": "1", "name": "rope__cut"}})
    answer = Artifact(artifact_id="a", name="answer", parts=[Part(text="The rope is cut.")])
    task = Task(id="t", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED), artifacts=[file, answer])
    assert reply_of(task).text == "The rope is cut.\n[A tool returned the file cut.diff.]"
