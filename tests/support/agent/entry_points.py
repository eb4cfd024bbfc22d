"""Entry points of plugins that a test defines."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Installed:
    name: str
    factory: Any
    value: str = "here:plugin"

    def load(self) -> Any:
        return self.factory
