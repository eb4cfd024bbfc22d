"""ListTasks: converts its parameters to a query of the task log, and a page of tasks to the response. Pure."""

from collections.abc import Sequence
from typing import Final

from a2a.types.a2a_pb2 import ListTasksRequest, ListTasksResponse, Task
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import (
    ListTasksCursor,
    apply_history_length,
    decode_list_tasks_cursor,
    encode_list_tasks_cursor,
    validate_page_size,
)

from fleetwright_a2a.task_events import copy_of
from fleetwright_agent.server.tasks.messages import check_id
from fleetwright_agent.storage.task_log import PagePosition, TaskPage, TaskQuery

_LATEST_NS: Final = 2**63 - 1
"""The largest timestamp that fits into an SQLite integer. A2A allows later dates, up to the year 9999."""


def query_of(owner: str, params: ListTasksRequest) -> TaskQuery:
    """Return the query for a ListTasks request. Raises: InvalidParamsError."""
    check_id(params.context_id, field="contextId")
    size = DEFAULT_LIST_TASKS_PAGE_SIZE
    if params.HasField("page_size"):
        validate_page_size(params.page_size)
        size = params.page_size
    since = params.status_timestamp_after.ToNanoseconds() if params.HasField("status_timestamp_after") else 0
    return TaskQuery(
        owner=owner,
        size=size,
        context_id=params.context_id,
        state=params.status,
        since_ns=min(max(since, 0), _LATEST_NS),
        after=_position(params.page_token) if params.page_token else None,
    )


def _position(token: str) -> PagePosition:
    try:
        cursor = decode_list_tasks_cursor(token)
        check_id(cursor.task_id if cursor else "", field="pageToken")
    except (RecursionError, InvalidParamsError):
        cursor = None
    if cursor is None or cursor.timestamp_ns is None or not 0 <= cursor.timestamp_ns < 2**63:
        raise InvalidParamsError("pageToken was not issued by this agent")
    return PagePosition(cursor.timestamp_ns, cursor.task_id)


def answer(params: ListTasksRequest, page: TaskPage, tasks: Sequence[Task]) -> ListTasksResponse:
    response = ListTasksResponse(page_size=len(tasks), total_size=page.total)
    for task in tasks:
        shown = copy_of(apply_history_length(task, params))
        if not params.include_artifacts:
            shown.ClearField("artifacts")
        response.tasks.append(shown)
    if page.following is not None:
        cursor = ListTasksCursor(page.following.updated_ns, page.following.task_id)
        response.next_page_token = encode_list_tasks_cursor(cursor)
    return response
