"""The port of the views of conversations. A view determines which messages a model sees; the rest are archived.

Every implementation guarantees:

- A new view, and the start of the retention time of the messages that it replaces, are one commit. So a crash leaves
  either the old view or the new view.
- Archived messages stay stored until the retention time of the archive ends.

This port does not interpret a view.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage


class ViewStore(Protocol):
    """The methods raise MemoryUnusable if the views cannot be read or written."""

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called after rows were deleted or changed, so that caches can be cleared."""

    async def get(self, thread: str) -> Mapping[str, Any] | None: ...

    async def put(self, thread: str, body: Mapping[str, Any], *, at: float, cut: str | None) -> None:
        """Store the view.

        Args:
            cut: Id of the last message whose retention time in the archive begins at `at`, if any.
        """

    async def failing(self, *, at_least: int) -> int:
        """Return how many conversations have had that many failed compactions since the last success."""

    async def archived(self, thread: str, *, cut: str, pruned: Collection[str]) -> "Sequence[AnyMessage]":
        """Return the messages up to the one with the id `cut`, and those whose ids are in `pruned`."""
