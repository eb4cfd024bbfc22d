"""Converts views to and from the JSON body in the storage."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_agent.config.compaction import PinKind
from fleetwright_agent.turn.compaction.ledger import EntryKind, EntrySource, LedgerEntry
from fleetwright_agent.turn.compaction.pins import Pin
from fleetwright_agent.turn.compaction.text.voice import Voice
from fleetwright_agent.turn.compaction.view import View


def dump_view(view: View) -> dict[str, Any]:
    """Return the view as plain values."""
    return {
        "cut": view.cut,
        "newest": view.newest,
        "request": view.request,
        "behind": view.behind,
        "summary": view.summary,
        "ledger": [[entry.kind, entry.text, entry.key, entry.source] for entry in view.ledger],
        "pins": [_dumped_pin(pin) for pin in view.pins],
        "pinned": view.pinned,
        "digest": view.digest,
        "pruned": {name: list(shape) for name, shape in view.pruned.items()},
    }


def load_view(body: Mapping[str, Any]) -> View:
    return View(
        cut=body["cut"],
        newest=body["newest"],
        request=body["request"],
        behind=body["behind"],
        summary=body["summary"],
        ledger=tuple(_loaded_entry(*fields) for fields in body["ledger"]),
        pins=tuple(map(_loaded_pin, body["pins"])),
        pinned=body["pinned"],
        digest=body["digest"],
        pruned={name: (head, end) for name, (head, end) in body["pruned"].items()},
    )


def _loaded_entry(kind: str, text: str, key: str, source: str = EntrySource.AGENT) -> LedgerEntry:
    """Return a stored entry; earlier versions stored no source."""
    return LedgerEntry(EntryKind(kind), text, key, source=EntrySource(source))


def _dumped_pin(pin: Pin) -> list[Any]:
    source = (pin.personal, pin.message, pin.begins)
    return [pin.kind, pin.text, pin.voice, pin.withdraws, *source, pin.later, pin.contradicted]


def _loaded_pin(fields: Sequence[Any]) -> Pin:
    """Return a stored pin; earlier versions stored fewer fields."""
    kind, text, *rest = fields
    return Pin(PinKind(kind), text, Voice(rest[0]), *rest[1:]) if rest else Pin(PinKind(kind), text)
