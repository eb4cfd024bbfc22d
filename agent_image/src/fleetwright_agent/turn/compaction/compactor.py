"""Makes a new view of a conversation: with truncated results, or with a summary of the older part. Stores nothing.

A new view is rejected if it loses a pin, the active request, or only one of a tool call and its result. It is also
rejected if it saves too little.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from langchain_core.messages import AIMessage

from fleetwright_agent.config.compaction import Compaction, PinKind
from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.compaction import pins
from fleetwright_agent.turn.compaction.economics import cheapest_trigger, rates, summary_payback
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCache
from fleetwright_agent.turn.compaction.ledger import merge_entries
from fleetwright_agent.turn.compaction.measure import estimate, estimate_text
from fleetwright_agent.turn.compaction.pin_message import PinMessage, ReadSkill, render_pins
from fleetwright_agent.turn.compaction.policy import choose_cut, effective_room, room
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.compaction.pruning import FORCED_OVER, PruneBatch, Shape, oversized
from fleetwright_agent.turn.compaction.selection import WeightedEntries, weigh_entries
from fleetwright_agent.turn.compaction.summariser import (
    AskModel,
    Summariser,
    SummaryFailed,
    SummaryInput,
    summary_input,
)
from fleetwright_agent.turn.compaction.summary import ComposedSummary, compose
from fleetwright_agent.turn.compaction.validate import rejection_reason
from fleetwright_agent.turn.compaction.view import View, summarised_view

_RATIO: Final = 4
"""A summary grows by at most a quarter of the messages that it replaces."""
_EXPECTED_RATIO: Final = 10
"""Summaries of agent conversations in publications have about a tenth of the size of the replaced messages."""
_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class CompactionResult:
    view: View
    method: str
    before: int
    """Estimated tokens of the prompt before the compaction."""
    after: int
    rewritten: int
    """Tokens that the provider must read uncached in the next call."""
    pins_missing: int = 0
    payback: float | None = None
    """Model calls until the compaction has paid for itself."""
    cheapest: int | None = None
    """The prompt size, in tokens, at which summarising a conversation like this one costs least."""


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The inputs of a summary, apart from the model's own text."""

    held: list[pins.Pin]
    pinned: PinMessage
    known: WeightedEntries
    """The ledger with the new entries, before the model's own notes."""
    characters: int
    """The maximum length of the summary."""


class Compactor:
    def __init__(self, policy: Compaction, model: Model, read_skill: ReadSkill) -> None:
        self._policy = policy
        self._read_skill = read_skill
        self._rates = rates(model.price)
        self._model = model
        self._summariser = Summariser(policy, model)

    @property
    def _window(self) -> int:
        """Maximum tokens of a prompt; it shrinks if a provider reports a smaller window on an overflow."""
        return room(self._model)

    def cut(self, prompt: Prompt, *, refused: int | None = None) -> int | None:
        """Return the number of stored messages that a summary would replace.

        Args:
            prompt: The current prompt.
            refused: The prompt size that a provider has refused, so the model's window is smaller than this.
        """
        known = effective_room(self._policy, self._window)
        fitting = known if refused is None else min(known, refused)
        index = choose_cut(prompt.stored[prompt.cut :], self._policy, room=fitting)
        return None if index is None else prompt.cut + index

    def expected_payback(self, prompt: Prompt, leaving: int, *, warm: bool) -> float:
        """Return the number of model calls after which a summary made now would have paid for itself.

        The summary is expected to grow by a tenth of the replaced messages, up to its maximum length.

        Args:
            prompt: The current prompt.
            leaving: The tokens of the messages that the summary would replace.
            warm: True if the provider still caches the prompt.
        """
        earlier = estimate_text(prompt.view.summary) if prompt.view else 0
        summary = min(self._policy.summary.max_tokens, earlier + leaving // _EXPECTED_RATIO)
        kept = max(0, prompt.estimated - prompt.declared - leaving - earlier)
        return summary_payback(self._rates, leaving=leaving + earlier, summary=summary, kept=kept, warm=warm)

    def pruned(self, prompt: Prompt, batch: PruneBatch) -> CompactionResult:
        view = replace(
            prompt.view or View(),
            newest=prompt.stored[-1].id or "",
            pruned={**(prompt.view.pruned if prompt.view else {}), **self._shapes(batch.ids)},
        )
        before, after = prompt.estimated, prompt.under(view).estimated
        return CompactionResult(view, "prune", before, after, batch.after, payback=batch.payback)

    async def summarised(
        self,
        prompt: Prompt,
        ask: AskModel,
        *,
        reading: ExtractionCache,
        chat: Any,
        own: Any = None,
        cold: bool,
        refused: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> CompactionResult:
        """Return a view with a summary.

        Args:
            prompt: The current prompt.
            ask: Calls a model.
            reading: The cache of extracted messages; messages that it lacks are extracted while the model writes.
            chat: The model that continues the conversation.
            own: The agent's own model, if `chat` is another model. The client of the summary model is derived from it.
            cold: True if the prompt is no longer in the provider's cache.
            refused: The prompt size that the provider has just refused; any shorter view is then accepted.
            settings: The prompt-cache arguments of the conversation's own calls; with them, the provider finds its
                cached prefix.

        Raises:
            SummaryFailed: No better view was found; the old one stays.
        """
        until = self.cut(prompt)
        if refused is not None and self._leaves_little(prompt, until, refused):
            with suppress(SummaryFailed):
                return self._cut_results(prompt, refused)
            until = self.cut(prompt, refused=refused)
        if until is None:
            raise SummaryFailed("nothing_to_cut")
        material = summary_input(prompt, until, chat=chat, cold=cold, refused=refused)
        material = replace(material, own=own, settings=settings or {})
        gathering = asyncio.create_task(asyncio.to_thread(self._gathered, prompt, until, reading))
        try:
            method, written = await self._summariser.write(material, ask)
        finally:
            gathered = await gathering
        gathered = await asyncio.to_thread(self._with_proposed, prompt, until, written.rules, gathered)
        shown = [each for pin in gathered.pinned.rules for each in pins.statements(pin)]
        summary = partial(compose, written, gathered.known, used=reading.words, beside=shown)
        made = await asyncio.to_thread(self._made, prompt, material, until, method, summary, gathered)
        reading.forget(prompt.stored[prompt.cut : until])
        return made

    def _gathered(self, prompt: Prompt, until: int, reading: ExtractionCache) -> _Gathered:
        reading.read(prompt.stored, behind=prompt.cut)
        old, kinds = prompt.view or View(), self._policy.pin.kinds
        leaving = prompt.stored[prompt.cut : until]
        held = pins.merge_pins(old.pins, pins.pins_of(leaving, kinds), kinds)
        fair = estimate_text(old.summary) + estimate(leaving) // _RATIO
        # Compute the cached estimate in this thread, while the model writes; the later check of the view needs it.
        _ = prompt.estimated
        return _Gathered(
            held=held,
            pinned=self._pinned(held),
            known=weigh_entries(merge_entries(old.ledger, reading.found(leaving)), reading.words),
            characters=_CHARACTERS * min(self._policy.summary.max_tokens, fair),
        )

    def _made(
        self,
        prompt: Prompt,
        material: SummaryInput,
        until: int,
        method: str,
        summary: Callable[..., ComposedSummary],
        gathered: _Gathered,
    ) -> CompactionResult:
        """Raises: SummaryFailed."""
        refused = material.refused
        composed = summary(characters=gathered.characters)
        gathered = self._with_later(gathered, composed.later)
        view = summarised_view(
            prompt.stored, until, old=prompt.view, summary=composed, pins=gathered.held, shown=gathered.pinned
        )
        view = view if refused is None else self._fitting(prompt, view, until, refused)
        missing = gathered.pinned.missing
        made = self._checked(prompt, view, method, missing, min_gain=None if refused is None else 0.0)
        return self._judged(made, material, prompt)

    def _judged(self, made: CompactionResult, material: SummaryInput, prompt: Prompt) -> CompactionResult:
        """Add the payback and the cheapest trigger, computed with the prices of the agent's own model."""
        leaving = material.gone + estimate_text(material.earlier)
        summary = estimate_text(made.view.summary)
        kept = max(0, made.rewritten - summary)
        warm = made.method == "summary"
        payback = summary_payback(self._rates, leaving=leaving, summary=summary, kept=kept, warm=warm)
        calls = sum(isinstance(message, AIMessage) for message in material.leaving)
        cheapest = cheapest_trigger(
            self._rates,
            floor=prompt.declared + summary,
            growth=material.gone / max(1, calls),
            summary=summary,
            kept=kept,
        )
        return replace(made, payback=payback, cheapest=cheapest)

    def _pinned(self, held: Sequence[pins.Pin]) -> PinMessage:
        return render_pins(held, self._policy.pin, self._read_skill, window=self._window)

    def _with_proposed(self, prompt: Prompt, until: int, rules: Sequence[str], gathered: _Gathered) -> _Gathered:
        """Return the inputs with the rules that the summariser proposes, if messages of the user contain them."""
        found = pins.proposed_rules(rules, prompt.stored[prompt.cut : until])
        if not found or PinKind.POLICY not in self._policy.pin.kinds:
            return gathered
        known = {pin.text for pin in gathered.held}
        new = [pin for pin in found if not any(pin.text in text for text in known)]
        held = pins.merge_pins(gathered.held, new, self._policy.pin.kinds)
        return replace(gathered, held=held, pinned=self._pinned(held))

    def _with_later(self, gathered: _Gathered, later: Mapping[str, str]) -> _Gathered:
        """Return the inputs with later statements added to the rules. Statements in the summary are not added."""
        held = [pins.with_later(pin, later) for pin in gathered.held]
        if all(pin.later == old.later for pin, old in zip(held, gathered.held, strict=True)):
            return gathered
        return replace(gathered, held=held, pinned=self._pinned(held))

    def repinned(self, view: View) -> tuple[View, int]:
        """Read the pins again from their sources. Return the view with these pins, and the number of missing pins."""
        found = self._pinned(view.pins)
        if found.digest == view.digest:
            return view, 0
        return replace(view, pinned=found.text, digest=found.digest), found.missing

    def _fitting(self, prompt: Prompt, view: View, until: int, refused: int) -> View:
        """Truncate the longest results in the tail first, then all long results if the prompt is still too large."""
        enough = min(self._window, int((1 - float(self._policy.guard.min_gain)) * refused))
        for over in (FORCED_OVER, self._policy.prune.over_chars):
            cut = self._shapes(oversized(prompt.stored[until:], over=over))
            view = replace(view, pruned={**cut, **view.pruned})
            if prompt.under(view).estimated <= enough:
                break
        return view

    def _leaves_little(self, prompt: Prompt, until: int | None, refused: int) -> bool:
        """Return True if a summary would replace too few tokens, because long results fill the rest of the prompt."""
        leaving = prompt.stored[prompt.cut : until] if until is not None else ()
        return estimate(leaving) <= float(self._policy.guard.min_gain) * refused

    def _cut_results(self, prompt: Prompt, refused: int) -> CompactionResult:
        """Raises: SummaryFailed."""
        old = replace(prompt.view or View(), newest=prompt.stored[-1].id or "")
        view = self._fitting(prompt, old, prompt.cut, refused)
        if len(view.pruned) == len(old.pruned):
            raise SummaryFailed("nothing_to_cut")
        return self._checked(prompt, view, "prune", 0, min_gain=0.0)

    def _checked(
        self, prompt: Prompt, view: View, method: str, missing: int, *, min_gain: float | None
    ) -> CompactionResult:
        before, after = prompt.estimated, prompt.under(view).estimated
        gain = float(self._policy.guard.min_gain) if min_gain is None else min_gain
        reason = rejection_reason(
            prompt.stored, view, prior_sessions=prompt.prior_sessions, before=before, after=after, min_gain=gain
        )
        if reason is not None or after >= before:
            raise SummaryFailed(reason or "no_gain")
        unchanged = prompt.declared + estimate_text(prompt.prior_sessions)
        return CompactionResult(view, method, before, after, max(0, after - unchanged), missing)

    def _shapes(self, ids: tuple[str, ...]) -> Mapping[str, Shape]:
        shape = (self._policy.prune.head, self._policy.prune.tail)
        return dict.fromkeys(ids, shape)
