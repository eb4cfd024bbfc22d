"""The cases of an evaluation: conversations, and what is expected of the last answer. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

_CASE: Final = frozenset({"name", "say", "expect"})
_EXPECT: Final = frozenset({"contains", "excludes", "matches", "tools", "noTools", "maxCostUSD", "state", "files"})


class InvalidEvaluation(ValueError):  # noqa: N818 - names the file's fault
    """The file is not an evaluation. The message names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What must be true after the last message. Unset fields expect nothing."""

    contains: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    """Tools that must have been called successfully, in this order, with any other calls between them."""
    no_tools: tuple[str, ...] = ()
    max_cost: Decimal | None = None
    state: str = "completed"
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By path below --workspace: texts that the file must contain afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationCase:
    name: str
    say: tuple[str, ...]
    expect: Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What happened in the conversation of a case."""

    state: str
    answer: str
    tools: tuple[tuple[str, bool], ...] = ()
    """(name, whether it succeeded), in the order of the calls."""
    cost: Decimal | None = None
    models: frozenset[str] = frozenset()
    """The models that the agent reports."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """By path: the text of a file that the case names; None if the workspace has no such file."""


def read_cases(text: str) -> list[EvaluationCase]:
    """Parse a file.

    Raises:
        InvalidEvaluation: A field is missing, unknown or of the wrong type.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidEvaluation(f"not YAML: {error}") from None
    cases = document.get("cases") if isinstance(document, Mapping) else None
    if not isinstance(cases, list) or not cases:
        raise InvalidEvaluation("cases: needs a list with at least one case")
    found = [_case(f"cases[{number}]", case) for number, case in enumerate(cases)]
    names = [case.name for case in found]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise InvalidEvaluation(f"cases: two cases have the name {double!r}; give each its own")
    return found


def problems(expect: Expectation, seen: Observation, *, model: str = "") -> list[str]:
    """Return what is not as expected; empty if the case has passed.

    Args: `model` is the model that the evaluation asked for; empty for the agent's own.
    """
    found = []
    if model and model not in seen.models:
        used = ", ".join(sorted(seen.models)) or "none that it reports"
        found.append(f"the agent used {used}; its a2a.callerChoices must name Model")
    if seen.state != expect.state:
        found.append(f"state is {seen.state}, expected {expect.state}")
    found += [f"the answer does not contain {text!r}" for text in expect.contains if text not in seen.answer]
    found += [f"the answer contains {text!r}" for text in expect.excludes if text in seen.answer]
    found += [f"the answer does not match {text!r}" for text in expect.matches if not re.search(text, seen.answer)]
    succeeded = iter(name for name, ok in seen.tools if ok)
    found += [f"no successful call of {name} at its place" for name in expect.tools if name not in succeeded]
    called = {name for name, _ in seen.tools}
    found += [f"{name} was called" for name in expect.no_tools if name in called]
    if expect.max_cost is not None and (seen.cost or 0) > expect.max_cost:
        found.append(f"the cost is {seen.cost} USD, expected at most {expect.max_cost} USD")
    for path, texts in expect.files.items():
        content = seen.files.get(path)
        if content is None:
            found.append(f"the workspace has no file {path}")
        else:
            found += [f"file {path} does not contain {text!r}" for text in texts if text not in content]
    return found


def _case(where: str, case: Any) -> EvaluationCase:
    _known(where, case, _CASE)
    name, say = case.get("name"), case.get("say")
    if not isinstance(name, str) or not name:
        raise InvalidEvaluation(f"{where}.name: needs a text")
    messages = (say,) if isinstance(say, str) else _texts(f"{where}.say", say)
    if not messages:
        raise InvalidEvaluation(f"{where}.say: needs at least one message")
    return EvaluationCase(name=name, say=messages, expect=_expectation(f"{where}.expect", case.get("expect", {})))


def _expectation(where: str, expect: Any) -> Expectation:
    _known(where, expect, _EXPECT)
    for pattern in _texts(f"{where}.matches", expect.get("matches", ())):
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidEvaluation(f"{where}.matches: {pattern!r} is not a regular expression: {error}") from None
    files = expect.get("files", {})
    if not isinstance(files, Mapping):
        raise InvalidEvaluation(f"{where}.files: needs paths with lists of texts")
    for path in files:
        if PurePosixPath(str(path)).is_absolute() or ".." in PurePosixPath(str(path)).parts:
            raise InvalidEvaluation(f"{where}.files: {path!r} must be a path below the workspace")
    return Expectation(
        contains=_texts(f"{where}.contains", expect.get("contains", ())),
        excludes=_texts(f"{where}.excludes", expect.get("excludes", ())),
        matches=_texts(f"{where}.matches", expect.get("matches", ())),
        tools=_texts(f"{where}.tools", expect.get("tools", ())),
        no_tools=_texts(f"{where}.noTools", expect.get("noTools", ())),
        max_cost=_dollars(f"{where}.maxCostUSD", expect.get("maxCostUSD")),
        state=str(expect.get("state", "completed")),
        files={str(path): _texts(f"{where}.files.{path}", texts) for path, texts in files.items()},
    )


def _known(where: str, value: Any, names: frozenset[str]) -> None:
    if not isinstance(value, Mapping):
        raise InvalidEvaluation(f"{where}: needs an object")
    if unknown := sorted(set(map(str, value)) - names):
        raise InvalidEvaluation(f"{where}.{unknown[0]}: unknown field; known are {', '.join(sorted(names))}")


def _texts(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise InvalidEvaluation(f"{where}: needs a list of texts")
    return tuple(value)


def _dollars(where: str, value: Any) -> Decimal | None:
    try:
        return None if value is None else Decimal(str(value))
    except InvalidOperation:
        raise InvalidEvaluation(f"{where}: {value!r} is not a number of dollars") from None
