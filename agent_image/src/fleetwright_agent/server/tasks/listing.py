"""ListTasks: reads a page of tasks from the task log, with the titles of their conversations."""

from collections.abc import Mapping, Sequence
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

from fleetwright_a2a.extensions import CONTEXT_TITLE
from fleetwright_a2a.task_events import copy_of
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.messages import check_id
from fleetwright_agent.storage.conversations import ConversationStore
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.tasks.records import PagePosition, TaskPage, TaskQuery
from fleetwright_agent.storage.tasks.task_log import TaskLog

_LATEST_NS: Final = 2**63 - 1
"""The largest timestamp that fits into an SQLite integer. A2A allows later dates, up to the year 9999."""


class TaskListing:
    def __init__(self, log: TaskLog, tasks: ActiveTasks, *, titles: ConversationStore | None = None) -> None:
        """Args: `titles` has the titles of conversations, if the agent supports them."""
        self._log = log
        self._tasks = tasks
        self._titles = titles

    async def page(self, owner: str, params: ListTasksRequest) -> ListTasksResponse:
        """Raises: InvalidParamsError, TaskLogUnavailable."""
        page = await self._log.page(query_of(owner, params))
        current = []
        for stored in page.tasks:
            live = self._tasks.known(stored.owner, stored.task.id)
            current.append(live.task if live else stored.task)
        return answer(params, page, current, titles=await self._titles_of(owner, current))

    async def _titles_of(self, owner: str, tasks: Sequence[Task]) -> Mapping[str, str]:
        if self._titles is None:
            return {}
        try:
            return await self._titles.titles(owner, {task.context_id for task in tasks})
        except MemoryUnusable:
            return {}  # The tasks are in another file, and can be listed without titles.


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


def answer(
    params: ListTasksRequest, page: TaskPage, tasks: Sequence[Task], *, titles: Mapping[str, str]
) -> ListTasksResponse:
    """Return the response. Args: `titles` are the titles of conversations by their id."""
    response = ListTasksResponse(page_size=len(tasks), total_size=page.total)
    for task in tasks:
        shown = copy_of(apply_history_length(task, params))
        if not params.include_artifacts:
            shown.ClearField("artifacts")
        if title := titles.get(task.context_id):
            shown.metadata.update({CONTEXT_TITLE: {"title": title}})
        response.tasks.append(shown)
    if page.following is not None:
        cursor = ListTasksCursor(page.following.updated_ns, page.following.task_id)
        response.next_page_token = encode_list_tasks_cursor(cursor)
    return response
