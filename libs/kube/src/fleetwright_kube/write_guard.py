"""Delays writes that repeat although nothing has changed, so that a loop cannot flood the API server.

A write is a repetition if this process has sent the same body to the same object with the same verb before, and nothing
that the reconcile reads has changed since: no object that concerns it was changed by somebody else, and nobody woke it.
Only repetitions take tokens from a bucket, so a write with a new cause is never delayed. A write of a status depends on
more than other writes: for it, a changed status of another object is a new cause too.

The guard forgets a write after the time in which its bucket fills. A slower repetition needs no delay.
"""

import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from fleetwright_kube.cache import Change, Id
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.errors import RetryLaterError

logger = logging.getLogger(__name__)

BURST: Final = 10
"""The number of repetitions that are not delayed."""
REFILL_SECONDS: Final = 30.0
"""The time after which one more repetition is allowed."""
MEMORY_SECONDS: Final = BURST * REFILL_SECONDS
STATUS: Final = "status"
"""The verb of a write of a status."""
_TIMESTAMP: Final = re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"')
_MOST_BODIES: Final = 16
"""The number of different bodies that a loop may alternate between and still be recognised."""
_reconciled: ContextVar[Id | None] = ContextVar("reconciled", default=None)
"""The object that this task reconciles."""


@dataclass(frozen=True, slots=True)
class Write:
    """A kind of write to one object."""

    verb: str
    target: Id

    def __str__(self) -> str:
        return f"{self.verb} {self.target[0]} {self.target[2]}"


@dataclass(slots=True)
class WriteInFlight:
    """A write that was sent, and the changes of its object that events have reported before the response."""

    key: Id
    version: str | None = None
    """The resource version in the response, which the caller sets; None if the response has none."""
    changes: list[Change] = field(default_factory=list)


class WriteLoopError(RetryLaterError):
    def __init__(self, seconds: float, write: Write) -> None:
        super().__init__(seconds, f"the write {write} repeats, although nothing has changed")
        self.write = write


@dataclass(slots=True)
class _History:
    """The recent writes of one kind to one object, by the reconciles of one object."""

    causes: tuple[int, int]
    """The counts of causes and observations at the first of these writes."""
    written_at: float
    bodies: dict[bytes, None] = field(default_factory=dict)
    tokens: float = BURST
    counted_at: float = 0.0

    def refill_tokens(self, now: float) -> None:
        self.tokens = min(float(BURST), self.tokens + (now - self.counted_at) / REFILL_SECONDS)
        self.counted_at = now

    def add_write(self, body: bytes, *, now: float) -> None:
        if body in self.bodies:
            self.tokens -= 1
        self.bodies[body] = None
        if len(self.bodies) > _MOST_BODIES:
            del self.bodies[next(iter(self.bodies))]
        self.written_at = now


@dataclass(slots=True)
class _Causes:
    """What has happened to one object since its reconciles have begun to write."""

    causes: int = 0
    observations: int = 0
    writes: set[Write] = field(default_factory=set)
    """The writes that have a history."""


class WriteGuard:
    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_delay: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        """Args: `on_delay` is called for each delayed write, with its verb and the kind of its object."""
        self._clock = clock
        self._on_delay = on_delay
        self._causes: dict[Id, _Causes] = {}
        """Of the objects whose reconciles have written lately."""
        self._histories: OrderedDict[tuple[Id, Write], _History] = OrderedDict()
        """Sorted by the time of the last write."""
        self._delayed: dict[Id, dict[Write, _History]] = {}
        """The histories of the writes that were delayed, by reconciled object."""
        self._in_flight: dict[Id, WriteInFlight] = {}
        """By the object that is written. The event of a write may precede the response."""

    @contextmanager
    def attribute_writes(self, key: Id) -> Iterator[None]:
        """Attribute the writes of the block to the reconcile of this object."""
        token = _reconciled.set(key)
        try:
            yield
        finally:
            _reconciled.reset(token)

    def note_change(self, key: Id, change: Change) -> None:
        """Record a change from a watch or a list which concerns the reconcile of `key`, unless it is its own write."""
        write = self._in_flight.get(change.entry.id)
        if write is not None and write.key == key:
            write.changes.append(change)
            return
        if key not in self._causes:
            return
        if is_cause(change):
            self.note_cause(key)
        else:
            self.note_observation(key)

    def note_own_change(self, key: Id) -> None:
        """Record a change by a write of this process. For the reconcile that has written it, it is no new cause."""
        if key != _reconciled.get():
            self.note_cause(key)

    def note_cause(self, key: Id) -> None:
        """Record that the object has a cause to be reconciled that is no object, such as a free slot."""
        if known := self._causes.get(key):
            known.causes += 1
            known.observations += 1

    def note_observation(self, key: Id) -> None:
        """Record that the reconcile of `key` may write another status, such as after a report."""
        if known := self._causes.get(key):
            known.observations += 1

    @contextmanager
    def guard_write(self, verb: str, target: Id, body: Mapping[str, Any]) -> Iterator[WriteInFlight]:
        """Delay the write of the block if it repeats too often. A write that raises an error does not count.

        A write outside of a reconcile is never delayed.

        Raises:
            WriteLoopError: if the write must wait.
        """
        key, write = _reconciled.get(), Write(verb, target)
        if key is None:
            yield WriteInFlight(target)
            return
        digest = _hash_body(body)
        history = self._find_history(key, write)
        is_repeated = digest in history.bodies
        if is_repeated and history.tokens < 1:
            self._report_delay(key, write, history)
            raise WriteLoopError((1 - history.tokens) * REFILL_SECONDS, write)
        sent = self._in_flight[target] = WriteInFlight(key)
        try:
            yield sent
        finally:
            del self._in_flight[target]
            for change in sent.changes:
                if sent.version is not None and change.entry.resource_version != sent.version:
                    self.note_change(key, change)
        history.add_write(digest, now=self._clock())
        if (key, write) not in self._histories:
            self._causes.setdefault(key, _Causes()).writes.add(write)
        self._histories[key, write] = history
        self._histories.move_to_end((key, write))

    def list_delayed(self, key: Id) -> list[Write]:
        """Return the writes by the reconciles of this object that were delayed and still repeat."""
        if key not in self._delayed:
            return []
        self._expire()
        delayed = {
            write: history
            for write, history in self._delayed[key].items()
            if self._histories.get((key, write)) is history and history.causes == self._count_causes(key, write)
        }
        self._delayed[key] = delayed
        if not delayed:
            del self._delayed[key]
        return sorted(delayed, key=str)

    def forget(self, key: Id) -> None:
        """Drop what is kept about a deleted object. A later object of the same name begins anew."""
        if known := self._causes.pop(key, None):
            for write in known.writes:
                del self._histories[key, write]
        self._delayed.pop(key, None)

    def _find_history(self, key: Id, write: Write) -> _History:
        """Return the history since the last cause; a new one if there is a new cause."""
        self._expire()
        now, causes = self._clock(), self._count_causes(key, write)
        history = self._histories.get((key, write))
        if history is None or history.causes != causes:
            return _History(causes, now, counted_at=now)
        history.refill_tokens(now)
        return history

    def _count_causes(self, key: Id, write: Write) -> tuple[int, int]:
        known = self._causes.setdefault(key, _Causes())
        return known.causes, known.observations if write.verb == STATUS else 0

    def _report_delay(self, key: Id, write: Write, history: _History) -> None:
        delayed = self._delayed.setdefault(key, {})
        if delayed.get(write) is not history:
            about = {"kind": key[0], "namespace": key[1], "object": key[2]}
            logger.warning("a write repeats, although nothing has changed", extra={**about, "write": str(write)})
        delayed[write] = history
        self._on_delay(write.verb, write.target[0])

    def _expire(self) -> None:
        oldest = self._clock() - MEMORY_SECONDS
        while self._histories and next(iter(self._histories.values())).written_at <= oldest:
            (key, write), _ = self._histories.popitem(last=False)
            known = self._causes[key]
            known.writes.remove(write)
            if not known.writes:
                del self._causes[key]


def is_cause(change: Change) -> bool:
    """Return whether a change by somebody else is a cause to write again.

    A changed status is none, because most are effects of our own writes: a Deployment starts a pod, and a pod ends.
    The end of an object that we were deleting is none either.
    """
    before, after = change.before, change.after
    if before is None:
        return change.entry.kind != "Pod"
    if after is None:
        return not before.deleting
    return _without_status(before) != _without_status(after)


def _without_status(entry: CachedObject) -> tuple[object, ...]:
    """Return what others may change about an object, except its status."""
    if entry.kind == "Pod":
        return (entry.uid, entry.deleting)
    projection = {name: value for name, value in entry.projection.items() if name != "status"}
    return (
        *(entry.uid, entry.generation, entry.deleting, entry.labels, entry.annotations),
        *(entry.controller, entry.holders, entry.owned, projection),
    )


def _hash_body(body: Mapping[str, Any]) -> bytes:
    """Return a hash of the body without its times, which differ although the same is written."""
    text = json.dumps(body, sort_keys=True, default=repr)
    return blake2b(_TIMESTAMP.sub('""', text).encode(), digest_size=16).digest()
