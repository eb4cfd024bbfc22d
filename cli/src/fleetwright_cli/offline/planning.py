"""Decides which tools a request should call, with which arguments. Pure rules that see only the request.

A user's text is split into steps. A step calls the declared tool whose name and description share the most words with
it. The tool must share enough words, and every required argument must be readable from the step.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_cli.offline.words import QUOTED, words

_STEPS = re.compile(r"(?:,?\s+(?:and\s+)?then\s+|;\s*|(?<=[.!?])\s+)", re.IGNORECASE)
_ENOUGH = 2
_NAMED = 2


@dataclass(frozen=True, slots=True)
class PlannedCall:
    name: str
    arguments: Mapping[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


def plan(text: str, tools: Sequence[Mapping[str, Any]]) -> list[PlannedCall]:
    """Return the calls that a text asks for, in order; none if no tool matches."""
    calls = (_best(step, tools) for step in _split(text) if step.strip())
    return [call for call in calls if call is not None]


def _split(text: str) -> Iterator[str]:
    """Split a text into steps. Quoted text is meant for another receiver and is never split."""
    masked = QUOTED.sub(lambda found: "_" * len(found.group()), text)
    end = 0
    for gap in _STEPS.finditer(masked):
        yield text[end : gap.start()]
        end = gap.end()
    yield text[end:]


def _best(step: str, tools: Sequence[Mapping[str, Any]]) -> PlannedCall | None:
    scored = sorted(((_score(step, tool["function"]), i) for i, tool in enumerate(tools)), key=lambda s: (-s[0], s[1]))
    for score, index in scored:
        if score < _ENOUGH:
            return None
        function = tools[index]["function"]
        arguments = _fill(step, function)
        if arguments is not None:
            return PlannedCall(function["name"], arguments)
    return None


def _score(step: str, function: Mapping[str, Any]) -> int:
    """Count common words. Words of the tool's name weigh more than those of its description."""
    said = words(step)
    named = words(function["name"])
    described = words(function.get("description", "")) - named
    return _NAMED * len(said & named) + len(said & described)


_PLAIN = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def demanded(text: str, function: Mapping[str, Any], *, complete: bool) -> PlannedCall:
    """Return a call with arguments from a text. With `complete`, missing arguments get default values."""
    properties = (function.get("parameters") or {}).get("properties") or {}
    plain = {name: _PLAIN.get(declared.get("type"), "") for name, declared in properties.items()} if complete else {}
    return PlannedCall(function["name"], plain | _read(text, function))


def _fill(step: str, function: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments, or None if a required one is missing."""
    arguments = _read(step, function)
    required = (function.get("parameters") or {}).get("required") or ()
    return arguments if set(required) <= set(arguments) else None


def _read(step: str, function: Mapping[str, Any]) -> dict[str, Any]:
    properties = (function.get("parameters") or {}).get("properties") or {}
    required = set((function.get("parameters") or {}).get("required") or properties)
    reading = _Reading(step)
    last = len(required) == 1
    # Optional arguments are read last, and optional text only if the step names the argument. Otherwise an optional
    # argument would take the text of the request.
    found = {
        name: reading.value(name, properties[name], last=last, function=function["name"], named=name not in required)
        for name in sorted(properties, key=lambda name: name not in required)
    }
    return {name: found[name] for name in properties if found[name] is not None}


class _Reading:
    """Reads values from one step. Each number, quotation or piece of JSON is used once."""

    def __init__(self, step: str) -> None:
        self._json, step = _literals(step)
        self._step = step.strip()
        self._numbers: list[str] = re.findall(r"(?<![\w-])-?\d+(?:\.\d+)?(?![\w-])", step)
        self._quoted: list[str] = re.findall(r'"([^"]+)"', step)
        self._codes: list[str] = re.findall(r"\b[A-Za-z]+-?\d[\w-]*\b", step)

    def value(self, name: str, declared: Mapping[str, Any], *, last: bool, function: str, named: bool) -> Any:
        """Args: `named` takes text only after the name of the argument."""
        if "enum" in declared:
            return self._choice(declared["enum"])
        kind = declared.get("type")
        if kind in {"number", "integer"}:
            return self._number(kind)
        if kind == "boolean":
            return bool(words(name) & words(self._step)) or None
        if kind == "string":
            return self._named([name]) if named else self._string(name, last=last, function=function)
        return self._literal(list if kind == "array" else dict) if kind in {"array", "object"} else None

    def _literal(self, wanted: type[Any]) -> Any:
        found = next((i for i, literal in enumerate(self._json) if isinstance(literal, wanted)), None)
        return None if found is None else self._json.pop(found)

    def _choice(self, options: Sequence[Any]) -> Any:
        said = words(self._step)
        fitting = [option for option in options if words(str(option)) and words(str(option)) <= said]
        return max(fitting, key=lambda option: len(words(str(option))), default=None)

    def _number(self, kind: str) -> float | int | None:
        if not self._numbers:
            return None
        text = self._numbers.pop(0)
        return int(float(text)) if kind == "integer" else float(text)

    def _string(self, name: str, *, last: bool, function: str) -> str | None:
        if self._quoted:
            return self._quoted.pop(0)
        if self._codes and not words(name) & {"message", "text", "question", "query"}:
            return self._codes.pop(0)
        return self._named(name.lower().split("_")) or (_addressed(self._step, function) if last else None)

    def _named(self, tokens: Sequence[str]) -> str | None:
        matches = (re.search(rf"\b{re.escape(token)}\s+([\w.-]+)", self._step, re.IGNORECASE) for token in tokens)
        return next((match.group(1) for match in matches if match), None)


def _literals(step: str) -> tuple[list[Any], str]:
    """Return the arrays and objects that are written as JSON, and the step without them."""
    found: list[Any] = []
    rest, at = "", 0
    while at < len(step):
        if step[at] in "[{":
            try:
                value, end = json.JSONDecoder().raw_decode(step, at)
            except ValueError:
                pass
            else:
                found.append(value)
                at = end
                continue
        rest, at = rest + step[at], at + 1
    return found, rest


def _addressed(step: str, function: str) -> str:
    """Return the text to pass on: for a tool that asks the cook, "Ask the cook to boil eggs" gives "boil eggs"."""
    name = r"[\s-]".join(re.escape(part) for part in function.split("_") if part != "ask")
    match = re.match(
        rf"(?:please\s+)?ask\s+(?:the\s+)?{name}(?:\s+agent)?[,:]?\s+(?:to\s+|about\s+|that\s+)?(.+)", step, re.I
    )
    return match.group(1) if match else step
