"""Runs a scripted conversation with a running fleet, prints the results, and checks them."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence

import httpx

from fleetwright_cli.dev.conversation import Address, Conversation, Counters, Exchange, Reply, counters, total
from fleetwright_cli.safe_text import one_line, safe_text

_SHOWN_METRICS = (
    "fleetwright_llm_calls_total",
    "fleetwright_llm_tokens_total",
    "fleetwright_llm_cost_usd_total",
    "fleetwright_tool_calls_total",
    "fleetwright_compactions_total",
    "fleetwright_compaction_tokens_total",
)
_WIDTH = 300
_MARKER = re.compile(r"\s*\[\[[^\]]*\]\]")
"""Markers that only the offline model understands."""


class Demonstration:
    """A runner of conversations.

    With `strict`, answers and counters are checked; otherwise only errors count as faults.
    """

    def __init__(
        self, addresses: Mapping[str, Address], http: httpx.AsyncClient, *, strict: bool, say: Callable[[str], None]
    ) -> None:
        self._addresses = addresses
        self._http = http
        self._strict = strict
        self._say = say

    async def hold(self, exchanges: Sequence[Exchange]) -> list[str]:
        """Run all exchanges, print the counters, and return the faults."""
        if not self._strict:
            self._say("a real provider answers; its answers are shown, and only errors count as faults")
        wrong: list[str] = []
        for exchange in exchanges:
            wrong += await self._exchange(exchange)
            if wrong and not self._strict:
                break  # a provider that fails once here fails for every exchange, slowly
        self._say("\nCounters scraped from the agents")
        for name, found in (await self._counters()).items():
            for (metric, labels), value in sorted(found.items()):
                if metric in _SHOWN_METRICS and value:
                    shown = ",".join(f'{key}="{text}"' for key, text in labels)
                    self._say(f"  {name:<10} {metric}{{{shown}}} {value:g}")
        return wrong

    async def _exchange(self, exchange: Exchange) -> list[str]:
        self._say(f"\n{exchange.title}")
        before = await self._counters()
        conversation = Conversation(self._addresses[exchange.agent], self._http)
        replies = []
        for written in exchange.say:
            text = written if self._strict else _MARKER.sub("", written)
            self._say(f"  you → {exchange.agent}: {_short(text)}")
            replies.append(await conversation.say(text))
            self._say(f"  [{replies[-1].spent}] {_short(replies[-1].text)}")
        after = await self._counters()
        return [f"{exchange.title}: {fault}" for fault in self._faults(exchange, replies, before, after)]

    def _faults(
        self,
        exchange: Exchange,
        replies: Sequence[Reply],
        before: Mapping[str, Counters],
        after: Mapping[str, Counters],
    ) -> list[str]:
        faults = [f"the task ended {reply.state}: {safe_text(reply.text)}" for reply in replies if not reply.completed]
        if not self._strict:
            return faults
        if exchange.answer.lower() not in replies[-1].text.lower():
            faults.append(f"the answer does not contain {exchange.answer!r}")
        for counter in exchange.grown:
            agent, selector = counter.split(" ", 1)
            if total(after[agent], selector) <= total(before[agent], selector):
                faults.append(f"{selector} of {agent} did not grow")
        return faults

    async def _counters(self) -> dict[str, Counters]:
        found = await asyncio.gather(*(counters(address, self._http) for address in self._addresses.values()))
        return dict(zip(self._addresses, found, strict=True))


def _short(text: str) -> str:
    plain = one_line(text, len(text))
    return plain if len(plain) <= _WIDTH else f"{plain[:_WIDTH]} … ({len(plain)} characters)"
