"""Imports of modules after the process has started.

`import_in_thread` keeps the event loop free. `fast_imports` defers garbage collection and the building of models.
"""

import asyncio
import gc
import importlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pydantic import BaseModel

_imported: set[str] = set()


async def import_in_thread(module: str) -> None:
    """Import a module, if this function has not imported it before."""
    if module not in _imported:
        await asyncio.to_thread(importlib.import_module, module)
        _imported.add(module)


class _FastImports:
    """Counts the open blocks of all threads. The first block changes the settings, and the last block restores them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._collected = True

    def enter(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._collected = gc.isenabled()
                gc.disable()
                BaseModel.model_config["defer_build"] = True

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                del BaseModel.model_config["defer_build"]
                if self._collected:
                    gc.enable()


_fast_imports: Final = _FastImports()


@contextmanager
def fast_imports() -> Generator[None]:
    """Import the modules of this block without garbage collections, and without building their pydantic models.

    Garbage collections during imports find hardly any garbage and take a tenth of the time. Libraries define some
    hundred models, of which a process uses few. Pydantic builds a deferred model when it is first used. A class
    inherits this setting when it is defined. Later subclasses of a deferred class are therefore deferred too, and other
    classes are not.

    The first use of a deferred model is not safe if two threads share it. Call `model_rebuild` on such models first.
    """
    _fast_imports.enter()
    try:
        yield
    finally:
        _fast_imports.leave()
