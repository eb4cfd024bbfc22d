"""The check that a peer waits for the answer that the model wants to give."""

from decimal import Decimal
from typing import Any

from a2a.client import Client, ClientCallContext
from a2a.types import GetTaskRequest, StreamResponse, Task, TaskState
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extensions import ASK
from fleetwright_agent.storage.open_questions import QuestionKey
from fleetwright_agent.tools.peers.requests import context_id_at_peer
from fleetwright_agent.tools.peers.response import PeerResponse, wants_approval
from fleetwright_agent.tools.port import ToolError


async def open_question(
    peer: str, client: Client, context: ClientCallContext, task_id: str, place: QuestionKey
) -> tuple[dict[str, Any], Decimal]:
    """Return the metadata that names the open question, and the cost that the peer has reported so far.

    The metadata prevents the peer from applying the answer to another question. The model could name any task, so this
    function accepts only a question of this conversation, and no request for approval.

    Raises:
        ToolError: The task has no such question.
    """
    try:
        task = await client.get_task(GetTaskRequest(id=task_id, history_length=0), context=context)
    except (TaskNotFoundError, InvalidParamsError):
        task = Task()
    if task.context_id != context_id_at_peer(place) or task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
        raise ToolError(f"{peer} has no open question with this task_id; ask again without task_id")
    if wants_approval(task.status):
        raise ToolError(f"{peer} waits for the approval of a person, which no agent gives")
    about = MessageToDict(task.status.message.metadata).get(ASK)
    heard = PeerResponse()
    heard.take(StreamResponse(task=task))
    cost = sum(heard.costs, Decimal(0))
    return ({ASK: {"id": about["id"]}} if isinstance(about, dict) and "id" in about else {}), cost
