"""The agents that one caller of the event stream sees. The work of an update is in proportion to the changes.

Most changes concern only the agent that changed. The whole view is built again only if the relations between agents of
the caller's namespace have changed. The permissions of a person can change without any event, so they are checked again
from time to time, one check per namespace.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.resources import CARD, NAMESPACE, VIEW
from fleetwright_gateway.identity.principals import AgentPrincipal, PersonPrincipal, Principal
from fleetwright_gateway.registry.search_index import Document
from fleetwright_kube.cache import Change

_BY_PHASE: Final = {"Running": "online", "Degraded": "degraded", "Blocked": "degraded", "Asleep": "asleep"}


@dataclass(frozen=True, slots=True)
class Seen:
    phase: str
    card: Mapping[str, Any]


View = Mapping[Identity, Seen]


class AgentListing(Protocol):
    """The agents that a caller sees in lists. The methods raise `Refused` if its permissions cannot be checked."""

    async def list(self, caller: Principal, namespace: str = "") -> Sequence[Document]: ...

    async def listed(self, caller: Principal, namespace: str, name: str) -> Document | None: ...

    async def spaces(self, caller: Principal) -> Collection[str]:
        """Return the namespaces whose agents a person sees; empty for other callers."""


class LiveView:
    def __init__(self, caller: Principal, listing: AgentListing) -> None:
        self._caller = caller
        self._listing = listing
        self._seen: dict[Identity, Seen] = {}
        self._spaces: frozenset[str] = frozenset()
        self._changed: set[Identity] = set()
        self._is_stale = True

    @property
    def seen(self) -> View:
        return self._seen

    def note(self, change: Change) -> bool:
        """Take note of a change of the cache. Return whether the view may differ now."""
        kind, place = change.entry.kind, (change.entry.namespace, change.entry.name)
        if kind == names.AGENT:
            self._changed.add(place)
            self._is_stale = self._is_stale or self._moves_edges(place, change)
            return True
        if kind == CARD and (agent := _agent_of_card(change)) is not None:
            self._changed.add((place[0], agent))
            return True
        if kind == NAMESPACE and isinstance(self._caller, AgentPrincipal) and place[1] == self._caller.namespace:
            self._is_stale = True
            return True
        return False

    async def refresh(self) -> list[tuple[str, Identity]]:
        """Bring the view up to date, and return the events since the last call. Raises: Refused."""
        changed, self._changed = self._changed, set()
        if self._is_stale:
            self._is_stale = False
            self._spaces = frozenset(await self._listing.spaces(self._caller))
            return self._put(_seen(await self._listing.list(self._caller)), self._seen.keys())
        current: dict[Identity, Seen] = {}
        for place in changed:
            found = await self._listing.listed(self._caller, *place)
            current |= _seen([] if found is None else [found])
        self._spaces |= {place[0] for place in current}
        return self._put(current, changed)

    def distrust(self) -> None:
        """Build the whole view again with the next refresh, because changes may have been missed."""
        self._is_stale = True

    async def check_permissions(self) -> list[tuple[str, Identity]]:
        """Check the namespaces of a person again, and return the events. Raises: Refused."""
        if not isinstance(self._caller, PersonPrincipal):
            return []
        before, self._spaces = self._spaces, frozenset(await self._listing.spaces(self._caller))
        current: dict[Identity, Seen] = {}
        for space in self._spaces - before:
            current |= _seen(await self._listing.list(self._caller, space))
        lost = before - self._spaces
        return self._put(current, [place for place in self._seen if place[0] in lost] if lost else [])

    def _put(self, current: View, places: Collection[Identity]) -> list[tuple[str, Identity]]:
        """Replace what the caller sees at these places and at those of `current`. Return the events."""
        touched = {*places, *current}
        before = {place: self._seen[place] for place in touched if place in self._seen}
        for place in touched:
            self._seen.pop(place, None)
        self._seen |= current
        return differences(before, current)

    def _moves_edges(self, place: Identity, change: Change) -> bool:
        """Return whether a change of an agent may show or hide other agents."""
        if not isinstance(self._caller, AgentPrincipal) or place[0] != self._caller.namespace:
            return False
        if change.before is None or change.after is None:
            return True
        before: AgentView = change.before.projection[VIEW]
        after: AgentView = change.after.projection[VIEW]
        if before.uid != after.uid:
            return True
        return before.spec != after.spec if place == self._caller.identity else before.spec.fleet != after.spec.fleet


def differences(before: View, after: View) -> list[tuple[str, Identity]]:
    """Return the events between two views, in the order of the agents' names. Pure."""
    found: list[tuple[str, Identity]] = []
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if new is None:
            found.append(("removed", place))
        elif old is None:
            found.append((_BY_PHASE.get(new.phase, "offline"), place))
        else:
            if old.phase != new.phase:
                kind = "awake" if old.phase == "Asleep" else _BY_PHASE.get(new.phase, "offline")
                found.append((kind, place))
            if old.card != new.card:
                found.append(("card-changed", place))
    return found


def _seen(documents: Sequence[Document]) -> dict[Identity, Seen]:
    return {(each.view.namespace, each.view.name): Seen(each.phase, each.card) for each in documents}


def _agent_of_card(change: Change) -> str | None:
    """Return the agent whose card a changed ConfigMap holds, or None if the card is the same."""
    sides = [side for side in (change.before, change.after) if side is not None]
    cards = [side.projection.get("card") for side in sides]
    owners = [side.controller.name for side in sides if side.controller is not None]
    return owners[-1] if owners and any(cards) and (len(cards) == 1 or cards[0] != cards[1]) else None
