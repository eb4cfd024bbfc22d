"""The conversions of a dialect in a module that is imported with the first call of the dialect.

The module has the tables `READS` and `WRITES` and the function `told`.
"""

import importlib
from collections.abc import Iterable
from typing import Any

from a2a.types.a2a_pb2 import Task

from fleetwright_a2a.dialects.dialect import Operation, Params, Read, Tell, Write
from fleetwright_a2a.task_events import Event


class DeferredConversions:
    def __init__(self, module: str) -> None:
        self.module = module

    def read(self, operation: Operation) -> Read:
        return lambda params: self._imported().READS[operation](params)

    def write(self, operation: Operation) -> Write:
        return lambda answer, request: self._imported().WRITES[operation](answer, request)

    def teller(self) -> Tell:
        return self._told

    def _told(self, event: Task | Event) -> Iterable[Params]:
        documents: Iterable[Params] = self._imported().told(event)
        return documents

    def _imported(self) -> Any:
        return importlib.import_module(self.module)
