"""Long texts that a backtracking expression would try in every division take time in proportion to their length."""

import time
from collections.abc import Callable

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from tests.support.machine import machine_factor

from fleetwright_agent.config.compaction import PinKind
from fleetwright_agent.protocol.fences import harmless
from fleetwright_agent.tools.workspace.shell.destructive import destruction
from fleetwright_agent.turn.compaction.extraction import page_of
from fleetwright_agent.turn.compaction.pins import pins_of
from fleetwright_agent.turn.compaction.text.voice import lines

LENGTH = 20_000
CEILING = 3.0
"""Seconds of processor time, multiplied by the factor of the machine.

The slowest text takes 0.2 s; expressions with quadratic work took 4 to 40 s.
"""

TEXTS = {
    "one word": "x",
    "hyphens": "-",
    "quotation marks": '"',
    "apostrophes": "'",
    "backquotes": "`",
    "slashes": "/",
    "folders": "a/",
    "brackets": "(",
    "links": "[[",
    "tags": "<a>",
    "full stops": ".",
    "abbreviations": "a.",
    "short sentences": "a b. ",
    "addresses": "a@",
    "numbers": "1.",
    "introductions": "here is ",
    "rules": "never do x. ",
    "list items": "- item\n",
    "paragraphs": "x\n\n",
    "tabulators": "\t",
    "tag with white space": " ",
    "closing of a letter": "\t",
}
BEGINNINGS = {"closing of a letter": "Hi Bob,\n-"}
"""The beginnings of the texts that do not begin with a tag."""
READERS: dict[str, Callable[[str], object]] = {
    "result": lambda text: page_of(ToolMessage(text, tool_call_id="call")),
    "message": lambda text: page_of(HumanMessage(text)),
    "answer": lambda text: page_of(AIMessage(text)),
    "voices": lines,
    "pins": lambda text: pins_of([HumanMessage(text, id="message")], tuple(PinKind)),
    "fence": harmless,
    "command": lambda text: destruction(text),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_long_text_takes_linear_time(reader: Callable[[str], object]) -> None:
    slowest = 0.0
    for name, unit in TEXTS.items():
        text = f"{BEGINNINGS.get(name, '<')}{(unit * LENGTH)[:LENGTH]} q"
        began = time.process_time()
        reader(text)
        took = time.process_time() - began
        assert took < CEILING * machine_factor(), f"{name}: {took:.1f} s of processor time"
        slowest = max(slowest, took)
    print(f"the slowest text took {slowest:.2f} s")  # noqa: T201 - the figure
