"""A prompt as it would be sent under a view, and its size. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import AnyMessage

from fleetwright_agent.turn.compaction.measure import estimate, estimate_text, prompt_tokens
from fleetwright_agent.turn.compaction.view import View, head, position, shown


@dataclass(frozen=True)
class Prompt:
    """What is found out about it is kept: each answer is a walk over the conversation."""

    stored: Sequence[AnyMessage]
    """The whole conversation."""
    view: View | None
    prior_sessions: str = ""
    system: str = ""
    tools: Sequence[dict[str, Any]] = ()

    def under(self, view: View) -> "Prompt":
        return replace(self, view=view)

    @cached_property
    def messages(self) -> list[AnyMessage]:
        return shown(self.stored, self.view, self.prior_sessions)

    @cached_property
    def head(self) -> list[AnyMessage]:
        """What stands before the conversation itself: no summary whose place in it is not known."""
        known = self.view if self.view and (self.cut or not self.view.cut) else None
        return head(known, self.prior_sessions)

    @cached_property
    def cut(self) -> int:
        """How many stored messages the view stands for."""
        return position(self.stored, self.view.cut) if self.view else 0

    def leaving(self, until: int) -> tuple[list[AnyMessage], int]:
        """What is shown of the first so many stored messages, without what stands before them, and its size."""
        if until not in self._leaving:
            messages = shown(self.stored[:until], self.view, self.prior_sessions)[len(self.head) :]
            self._leaving[until] = messages, estimate(messages)
        return self._leaving[until]

    @cached_property
    def _leaving(self) -> dict[int, tuple[list[AnyMessage], int]]:
        return {}

    @cached_property
    def declared(self) -> int:
        """Tokens of the tools and the system message."""
        return sum(estimate_text(json.dumps(tool)) for tool in self.tools) + estimate_text(self.system)

    def tokens(self) -> int:
        """By the provider's last count, where one measured this very view, and an estimate of what came since."""
        trusted_from = self.view.newest if self.view else None
        return prompt_tokens(self.messages, system=self.system, tools=self.tools, trusted_from=trusted_from)

    @cached_property
    def estimated(self) -> int:
        """By estimate alone, to be compared with another estimate."""
        return estimate(self.messages) + self.declared
