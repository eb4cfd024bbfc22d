"""Stores the values of the agent's counters in the memory volume, so that they continue in the next process.

A scraper sees the counters of all processes of an agent as one series. Two rules keep this series correct:

- A value is on disk before it is exposed, because a counter that decreases counts as a restart from zero. If the values
  cannot be written, the counters are missing from the response.
- No counter is exposed before it was raised to its stored value.

The file contains no names of callers, because an erasure would have to remove them. The usage store has the costs of
callers, as all tokens and costs. A killed process loses what the other counters have counted since the last scrape.
"""

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, Field

from fleetwright_agent.telemetry.metrics import CALLER, OTHER_CALLERS, Counts, Metrics, counts_of

_logger = logging.getLogger(__name__)
_FILE: Final = "counters.json"


class _Stored(BaseModel):
    """The content of the file."""

    version: Literal[1] = 1
    counters: tuple[tuple[str, tuple[tuple[str, str], ...], Annotated[float, Field(ge=0, allow_inf_nan=False)]], ...]
    """The name of each counter, the names and values of its labels, and its value."""


class _Families(Collector):
    """Metrics that were collected before."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class CounterFile:
    """The methods may be called from several threads."""

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._path = folder / _FILE
        self._metrics = metrics
        self._lock = threading.Lock()
        self._is_hidden = False
        self._stored: Counts | None = None
        """The values in the file; None until `resume` has read them."""

    def resume(self) -> None:
        """Raise each counter to its stored value, unless it is larger. A second call has no effect.

        No other process may use the volume. If the file is missing or damaged, the counters continue from their current
        values.
        """
        with self._lock:
            if self._stored is None:
                self._stored = self._read()
                self._metrics.raise_to(self._stored)

    def hide(self) -> None:
        """Expose no counters from now on, because the next process exposes its own."""
        self._is_hidden = True

    def save(self) -> None:
        """Store the current values. A failure is logged."""
        with self._lock:
            self._save(list(self._metrics.registry.collect()))

    def snapshot(self) -> CollectorRegistry:
        """Return the current metrics, whose counters are on disk.

        There are no counters before `resume`, after `hide`, and while they cannot be stored.
        """
        with self._lock:
            families = list(self._metrics.registry.collect())
            if not self._save(families) or self._is_hidden:
                families = [each for each in families if each.type != "counter"]
        found = CollectorRegistry(auto_describe=False)
        found.register(_Families(families))
        return found

    def _read(self) -> Counts:
        try:
            stored = _Stored.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "the file is damaged"
            _logger.error("the stored counters cannot be read, so the counters start again: %s", why)
            return {}
        return {(name, labels): value for name, labels, value in stored.counters}

    def _save(self, families: Iterable[Metric]) -> bool:
        """Store the values if they have changed. Return whether the file has them."""
        counts = {key: value for key, value in counts_of(families).items() if value and not _names_caller(key[1])}
        if self._stored is None or counts == self._stored:
            return self._stored is not None
        try:
            stored = _Stored(counters=tuple((*key, value) for key, value in counts.items()))
            _replace(self._path, stored.model_dump_json().encode())
        except OSError as error:
            _logger.error("the counters cannot be stored: %s", error.strerror)
            return False
        self._stored = counts
        return True


def _names_caller(labels: Iterable[tuple[str, str]]) -> bool:
    return any(name == CALLER and value != OTHER_CALLERS for name, value in labels)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a crash of the node. Raises: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Replace the file atomically. Raises: OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    try:
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            fresh.unlink()
        raise
