"""Parses an agent card and keeps the fields that the server needs."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a.types.a2a_pb2 import AgentCard
from google.protobuf.json_format import ParseDict


@dataclass(frozen=True, slots=True)
class Card:
    raw: bytes
    digest: str
    """`sha256:<hex>` of `raw`, in the same format as in the Agent's status."""
    input_modes: frozenset[str]
    """The media types that callers may send, from the card and its skills."""
    output_modes: frozenset[str] = frozenset()
    """The default media types of answers."""
    skill_output_modes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The media types of answers, for skills that declare their own."""
    skill_ids: frozenset[str] = frozenset()
    extensions: frozenset[str] = frozenset()
    """The URIs of the A2A extensions that the card declares."""
    required: frozenset[str] = frozenset()
    """The URIs of the extensions that every caller must request."""
    streaming: bool = False
    """True if the card declares streaming."""
    addresses: frozenset[str] = frozenset()
    """The URLs of the interfaces."""

    def message(self) -> AgentCard:
        """Return the card as a protobuf message of A2A 1.0, without unknown fields."""
        return ParseDict(json.loads(self.raw), AgentCard(), ignore_unknown_fields=True)


def parse_card(raw: bytes) -> Card:
    """Parse an agent card. Raises: ValueError."""
    try:
        card = json.loads(raw)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(card, dict) or not isinstance(card.get("name"), str):
        raise ValueError("it is not an agent card")
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    try:
        modes, declared = frozenset(_input_modes(card)), _extensions(card)
        required = frozenset(uri for uri, is_required in declared.items() if is_required)
        return Card(
            raw,
            digest,
            input_modes=modes,
            output_modes=frozenset(map(str.lower, card.get("defaultOutputModes") or ())),
            skill_output_modes=_output_modes(card),
            skill_ids=frozenset(str(skill["id"]) for skill in card.get("skills") or () if "id" in skill),
            extensions=frozenset(declared),
            required=required,
            streaming=(card.get("capabilities") or {}).get("streaming") is True,
            addresses=frozenset(_addresses(card)),
        )
    except (AttributeError, KeyError, TypeError):
        raise ValueError("check its modes, skills and extensions") from None


def _addresses(card: dict[str, Any]) -> Iterator[str]:
    for interface in card.get("supportedInterfaces") or ():
        if isinstance(url := interface.get("url"), str):
            yield url


def _extensions(card: dict[str, Any]) -> dict[str, bool]:
    """Return for each declared extension URI whether it is required."""
    declared = card.get("capabilities", {}).get("extensions") or ()
    return {each["uri"]: each.get("required", False) is True for each in declared}


def _input_modes(card: dict[str, Any]) -> set[str]:
    modes = set(card.get("defaultInputModes") or ())
    for skill in card.get("skills") or ():
        modes.update(skill.get("inputModes") or ())
    return modes


def _output_modes(card: dict[str, Any]) -> dict[str, frozenset[str]]:
    skills = card.get("skills") or ()
    return {skill["id"]: frozenset(map(str.lower, modes)) for skill in skills if (modes := skill.get("outputModes"))}
