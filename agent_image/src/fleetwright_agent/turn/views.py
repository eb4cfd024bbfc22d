"""Loads and stores the view of each conversation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AnyMessage

from fleetwright_a2a.lazy_import import import_in_thread
from fleetwright_agent.storage.views import ViewStore
from fleetwright_agent.turn.compaction.view import CompactionState, View

_BODY: Final = "fleetwright_agent.turn.compaction.view_body"


class Views:
    def __init__(self, store: ViewStore) -> None:
        self._store = store

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called after rows were deleted or changed, so that caches can be cleared."""
        self._store.watch(forget)

    async def get(self, thread: str) -> CompactionState:
        body = await self._store.get(thread)
        if body is None:
            return CompactionState()
        view = await _load(body["view"]) if body["view"] else None
        return CompactionState(view, body["failures"], body.get("retryAt", 0))

    async def put(self, thread: str, standing: CompactionState, *, at: float, archives: bool = False) -> None:
        """Store a view. `archives` marks a new cut, which starts the retention time of the messages before the cut."""
        view = await _dump(standing.view) if standing.view else None
        body = {"view": view, "failures": standing.failures, "retryAt": standing.retry_at}
        cut = standing.view.cut if standing.view and archives else None
        await self._store.put(thread, body, at=at, cut=cut)

    async def failing(self, *, at_least: int) -> int:
        """Return how many conversations have had that many failed compactions since the last success."""
        return await self._store.failing(at_least=at_least)

    async def archived(self, thread: str) -> Sequence[AnyMessage]:
        """Return the archived messages, and those that the view shows only in part."""
        view = (await self.get(thread)).view
        return () if view is None else await self._store.archived(thread, cut=view.cut, pruned=view.pruned)


async def _load(body: Mapping[str, Any]) -> View:
    await import_in_thread(_BODY)
    from fleetwright_agent.turn.compaction.view_body import load_view

    return load_view(body)


async def _dump(view: View) -> dict[str, Any]:
    await import_in_thread(_BODY)
    from fleetwright_agent.turn.compaction.view_body import dump_view

    return dump_view(view)
