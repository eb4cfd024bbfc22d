"""Markers in a prompt that make the model fail on purpose.

`[[fail:KIND]]` in the newest user message fails every time. `[[fail:KIND*N]]` fails the first N times that message is
seen. `[[fail:KIND@MODEL]]` fails only the model of that name. `[[pause:SECONDS]]` waits between the pieces of a
streamed answer. This model ignores markers in quotation marks, because they are for the sub-agent or peer that receives
the quoted text. The server refuses a request with control characters, as some providers do. It also refuses a request
with `[[refuse]]` in a tool result.
"""

import hashlib
import re
from collections import Counter
from dataclasses import dataclass

from fleetwright_cli.offline.words import own

KINDS = ("401", "403", "404", "429", "500", "503", "hang", "overflow", "refused", "malformed", "cut", "empty", "length")
_FAIL = re.compile(rf"\[\[fail:({'|'.join(KINDS)})(?:\*(\d+))?(?:@([\w.-]+))?\]\]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_REFUSE = "[[refuse]]"
_PAUSE = re.compile(r"\[\[pause:(\d+(?:\.\d+)?)\]\]")
_MOST_PAUSE = 5.0
STATUS = {
    "401": (401, "invalid_api_key", "Incorrect API key provided."),
    "403": (403, "forbidden", "This key may not use the model."),
    "404": (404, "model_not_found", "The model does not exist."),
    "429": (429, "rate_limit_exceeded", "Rate limit reached."),
    "500": (500, "server_error", "The server had an error."),
    "503": (503, "overloaded", "The server is overloaded."),
    "refused": (400, "invalid_value", "The request holds what this model does not read."),
    "overflow": (400, "context_length_exceeded", "This model's maximum context length is exceeded."),
}


@dataclass(slots=True)
class Failing:
    """Counts how often each counted failure was returned. No other part of a request is stored."""

    seen: Counter[str]

    def kind(self, asked: str, model: str) -> str | None:
        match = next((found for found in _FAIL.finditer(own(asked)) if found.group(3) in {None, model}), None)
        if match is None:
            return None
        kind, times = match.group(1), match.group(2)
        if times is None:
            return kind
        key = hashlib.sha256(asked.encode()).hexdigest()
        self.seen[key] += 1
        return kind if self.seen[key] <= int(times) else None


def offends(text: str, *, is_result: bool) -> bool:
    """Return whether a message makes the server refuse the request."""
    return bool(_CONTROL.search(text)) or (is_result and _REFUSE in text)


def pause(asked: str) -> float:
    """Return the seconds between two pieces of the answer."""
    match = _PAUSE.search(own(asked))
    return min(_MOST_PAUSE, float(match.group(1))) if match else 0.0
