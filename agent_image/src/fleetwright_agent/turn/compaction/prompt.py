"""A prompt as it would be sent with a given view, and its size. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.turn.compaction.measure import estimate, estimate_text, prompt_tokens
from fleetwright_agent.turn.compaction.view import View, head, position, visible_messages


@dataclass(frozen=True)
class Prompt:
    """The inputs of a prompt. Derived values are cached, because computing each one reads the whole conversation."""

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
        return visible_messages(self.stored, self.view, self.prior_sessions)

    @cached_property
    def head(self) -> list[AnyMessage]:
        """The messages before the tail. A summary is left out if its place in the conversation is unknown."""
        known = self.view if self.view and (self.cut or not self.view.cut) else None
        return head(known, self.prior_sessions)

    @cached_property
    def cut(self) -> int:
        """The number of stored messages that the view replaces."""
        return position(self.stored, self.view.cut) if self.view else 0

    def leaving(self, until: int) -> tuple[list[AnyMessage], int]:
        """Return the first `until` stored messages as the model sees them under the view, and their size in tokens.

        The head is left out.
        """
        if until not in self._leaving:
            messages = visible_messages(self.stored[:until], self.view, self.prior_sessions)[len(self.head) :]
            self._leaving[until] = messages, estimate(messages)
        return self._leaving[until]

    @cached_property
    def _leaving(self) -> dict[int, tuple[list[AnyMessage], int]]:
        return {}

    @cached_property
    def declared(self) -> int:
        """Tokens of the tool declarations and the system message."""
        return sum(estimate_text(json.dumps(tool)) for tool in self.tools) + estimate_text(self.system)

    def tokens(self) -> int:
        """The provider's last count for this view plus an estimate of later messages, or an estimate of everything."""
        trusted_from = self.view.newest if self.view else None
        return prompt_tokens(self.messages, system=self.system, tools=self.tools, trusted_from=trusted_from)

    @cached_property
    def estimated(self) -> int:
        """Estimated tokens, for comparison with other estimates."""
        return estimate(self.messages) + self.declared


def tokens_since(prompt: Prompt) -> int:
    """Prompt tokens sent since the view was made, as the provider counted them."""
    since = prompt.stored[position(prompt.stored, prompt.view.newest) if prompt.view else 0 :]
    answers = (message for message in since if isinstance(message, AIMessage))
    return sum(answer.usage_metadata["input_tokens"] for answer in answers if answer.usage_metadata)
