"""The deletions of children: which this process has made, and since when others have not ended."""

from collections import OrderedDict
from typing import Final

_REMEMBERED: Final = 1024


class DeletionHistory:
    """Remembers a limited number of deletions, by the uids of the children."""

    def __init__(self) -> None:
        self._own: OrderedDict[str, None] = OrderedDict()
        self._first_seen: OrderedDict[str, float] = OrderedDict()

    def record_own(self, uid: str) -> None:
        """Record a deletion by this process.

        Call this before the request, because the event of the deletion may come before the response.
        """
        self._own[uid] = None
        while len(self._own) > _REMEMBERED:
            self._own.popitem(last=False)

    def withdraw_own(self, uid: str) -> None:
        """Remove a record, because the API server has refused the deletion."""
        self._own.pop(uid, None)

    def is_own(self, uid: str) -> bool:
        return uid in self._own

    def measure_seconds(self, uid: str, *, now: float) -> float:
        """Return for how long a child has been in deletion since this method was first called for it."""
        since = self._first_seen.setdefault(uid, now)
        while len(self._first_seen) > _REMEMBERED:
            self._first_seen.popitem(last=False)
        return now - since
