"""What the event streams show: equal to a new list after every change, with work in proportion to the change."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from tests.support.gateway.fleet_api import NOW, FleetApi

from fleetwright_a2a.clock import Clock
from fleetwright_api import names
from fleetwright_gateway.access.access_reviewer import AccessReviewer
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_gateway.identity.principals import AgentPrincipal, ClientPrincipal, PersonPrincipal, Principal, User
from fleetwright_gateway.registry.events import EventStreams
from fleetwright_gateway.registry.live_view import LiveView, Seen
from fleetwright_gateway.registry.search_index import SearchIndex

ADA = PersonPrincipal(user=User(username="ada"))
GUEST = ClientPrincipal(sha256="0" * 64, agents={("team", "a1"): "guest", ("team", "gone"): "guest"})
SPACES = ("team", "other")


def member(name: str, api: FleetApi) -> AgentPrincipal:
    return AgentPrincipal(namespace="team", name=name, uid=api.uid(name))


@dataclass
class Listings:
    """The lists of the registry, with a record of the documents that were looked at."""

    api: FleetApi
    seconds: float = 0.0
    fleet: Fleet = field(default_factory=Fleet)
    looked_at: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index = SearchIndex(self.fleet)
        clock = Clock(now_ns=lambda: int((NOW + self.seconds) * 1e9), monotonic=lambda: self.seconds)
        self.visibility = Visibility(self.fleet, AccessReviewer(self.api, clock=clock))

    async def follow(self) -> None:
        synchroniser = Synchroniser(self.api, self.fleet, namespaces=(), resync_seconds=60)
        assert await synchroniser.fill()
        views = {"Namespace": "NamespaceMetadata"}
        self.api.listeners.append(
            lambda event, kind, body: synchroniser.informer.event(views.get(kind, kind), event, body)
        )

    async def list(self, caller: Principal, namespace: str = ""):
        found = self.index.documents(await self.visibility.list(caller, namespace))
        self.looked_at += [each.view.name for each in found]
        return found

    async def listed(self, caller: Principal, namespace: str, name: str):
        self.looked_at.append(name)
        found = await self.visibility.listed(caller, namespace, name)
        return None if found is None else self.index.document(found)

    async def spaces(self, caller: Principal):
        return await self.visibility.spaces(caller)


@pytest.fixture
async def listings(api):
    made = Listings(api)
    for space in SPACES:
        api.put({"kind": "Namespace", "metadata": {"name": space, "namespace": ""}})
        for number in range(8):
            parent = {"parent": {"name": f"a{number - 3}"}} if number > 2 else {}
            api.add_agent(f"a{number}", namespace=space, spec={"fleet": {"reach": "Lineage", **parent}})
            api.add_card(f"a{number}", {"name": f"a{number}"}, namespace=space)
        api.grants.add(("ada", space, ""))
    await made.follow()
    return made


def view_of(caller: Principal, listings: Listings) -> LiveView:
    view = LiveView(caller, listings)
    listings.fleet.observe(view.note)
    return view


@pytest.mark.parametrize("caller", [ADA, GUEST, "a1"], ids=["person", "client", "agent"])
async def test_live_view_of_a_status_looks_at_one_agent(api, listings, caller):
    view = view_of(member(caller, api) if isinstance(caller, str) else caller, listings)
    await view.refresh()
    listings.looked_at.clear()
    api.set_status(names.AGENT, "a0", {"phase": "Running"})
    api.add_card("a0", {"name": "a0", "version": "2"})
    events = await view.refresh()
    assert listings.looked_at == ["a0"]
    shown = [("online", ("team", "a0")), ("card-changed", ("team", "a0"))]
    assert events == ([] if caller is GUEST else shown)
    await view.refresh()
    await view.check_permissions()
    assert listings.looked_at == ["a0"], "nothing has changed"


async def test_live_view_follows_the_permissions_of_a_person(api, listings):
    view = view_of(ADA, listings)
    await view.refresh()
    api.grants.remove(("ada", "other", ""))
    listings.seconds += 31
    listings.looked_at.clear()
    removed = await view.check_permissions()
    assert removed == [("removed", ("other", f"a{number}")) for number in range(8)]
    assert listings.looked_at == []
    api.grants.add(("ada", "other", ""))
    listings.seconds += 31
    assert [kind for kind, _ in await view.check_permissions()] == ["offline"] * 8
    assert listings.looked_at == [f"a{number}" for number in range(8)]


async def test_live_view_forgets_a_new_namespace_whose_grant_ends(api, listings):
    view = view_of(ADA, listings)
    await view.refresh()
    api.grants.add(("ada", "fresh", ""))
    api.add_agent("new", namespace="fresh")
    assert await view.refresh() == [("offline", ("fresh", "new"))]
    api.grants.remove(("ada", "fresh", ""))
    listings.seconds += 31
    assert await view.check_permissions() == [("removed", ("fresh", "new"))]


@pytest.mark.parametrize("caller", [ADA, GUEST, "a1", "a4"], ids=["person", "client", "agent", "child"])
@pytest.mark.parametrize("seed", range(5))
async def test_live_view_equals_a_list_after_any_changes(api, listings, caller, seed):
    who = member(caller, api) if isinstance(caller, str) else caller
    view = view_of(who, listings)
    await view.refresh()
    chance = random.Random(seed)
    for _ in range(60):
        for _ in range(chance.randrange(1, 4)):
            changed(api, chance)
        before = dict(view.seen)
        events = await view.refresh()
        expected = {(each.view.namespace, each.view.name): each for each in await listings.list(who)}
        assert view.seen == {place: Seen(each.phase, each.card) for place, each in expected.items()}
        assert {place for _, place in events} >= before.keys() ^ expected.keys()


def changed(api: FleetApi, chance: random.Random) -> None:
    """Make a change of an agent, of its card, or of its place in the team."""
    space, name = chance.choice(SPACES), f"a{chance.randrange(8)}"
    exists = api.has(names.AGENT, name, namespace=space)
    kind = chance.choice(["status", "card", "spec", "spec", "removal", "namespace"])
    if kind == "namespace":
        api.put(
            {"kind": "Namespace", "metadata": {"name": space, "namespace": "", "labels": {"tier": chance.choice("xy")}}}
        )
    elif kind == "removal" and exists and name not in {"a1", "a4"}:
        api.remove(names.AGENT, name, namespace=space)
    elif kind == "status" and exists:
        api.set_status(names.AGENT, name, {"phase": chance.choice(["Running", "Asleep"])}, namespace=space)
    elif kind == "card" and exists:
        api.add_card(name, {"name": name, "version": str(chance.random())}, namespace=space)
    else:
        api.add_agent(name, namespace=space, spec=spec(chance))


def spec(chance: random.Random) -> dict:
    fleet: dict = {"reach": chance.choice(["None", "Direct", "Lineage"])}
    if chance.random() < 0.7:
        fleet["parent"] = {"name": f"a{chance.randrange(8)}"}
    if chance.random() < 0.1:
        fleet["forwardedTo"] = {"name": f"a{chance.randrange(8)}"}
    peer = {"name": f"a{chance.randrange(8)}", "namespace": chance.choice(SPACES)}
    selected = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"tier": "x"}}}}
    return {"fleet": fleet, "peers": [peer], "allowedCallers": selected}


async def test_change_of_a_hidden_agent_is_not_noticed(api):
    """A comment at the moment of the change would tell the caller that something hidden has changed."""
    listings = Listings(api)
    api.add_agent("shown")
    api.add_agent("secret", namespace="elsewhere")
    api.grants.add(("ada", "team", ""))
    await listings.follow()
    loop = asyncio.get_running_loop()

    def change(phase: str) -> None:
        api.set_status(names.AGENT, "secret", {"phase": phase}, namespace="elsewhere")

    async with EventStreams(listings, listings.fleet).open(ADA) as events:
        assert await anext(events) == ": open\n\n"
        begun = loop.time()
        for seconds in (1.0, 6.0, 14.0):
            loop.call_later(seconds, change, f"Running{seconds}")
        assert await anext(events) == ": keep-alive\n\n"
        assert loop.time() - begun == pytest.approx(15.0, abs=0.01)
        api.set_status(names.AGENT, "shown", {"phase": "Running"})
        assert "event: online" in await anext(events)
        assert loop.time() - begun == pytest.approx(15.2, abs=0.01)


@pytest.mark.parametrize("method", ["find", "listed"])
async def test_agent_that_changes_during_a_review_is_shown_as_it_is(api, method):
    listings = Listings(api)
    api.add_agent("a1", status={"phase": "Asleep"})
    api.grants |= {("ada", "team", ""), ("ada", "team", "a1")}
    await listings.follow()
    held = listings.fleet.agents["team", "a1"]

    class SlowReviews(FleetApi):
        async def create(self, resource, body):
            api.set_status(names.AGENT, "a1", {"phase": "Running"})
            return await api.create(resource, body)

    clock = Clock(now_ns=lambda: int(NOW * 1e9), monotonic=lambda: 0.0)
    visibility = Visibility(listings.fleet, AccessReviewer(SlowReviews(), clock=clock))
    found = await getattr(visibility, method)(ADA, "team", "a1")
    assert found.status["phase"] == "Running"
    # A document of an earlier version must not stay in the index.
    assert listings.index.document(held).phase == "Asleep"
    assert [each.phase for each in await listings.list(ADA, "team")] == ["Running"]


async def test_list_follows_added_replaced_and_deleted_agents(api, listings):
    async def listed() -> list[tuple[str, str]]:
        return [(each.namespace, each.name) for each in await listings.visibility.list(ADA)]

    def expected(*, without: str = "") -> list[tuple[str, str]]:
        return sorted(each for each in listings.fleet.agents if each != ("other", without))

    assert await listed() == expected()
    api.add_agent("a05", namespace="other")
    assert await listed() == expected()
    api.add_agent("a05", namespace="other", spec={"fleet": {"forwardedTo": {"name": "a1"}}})
    assert await listed() == expected(without="a05")
    api.remove(names.AGENT, "a3", namespace="other")
    assert await listed() == expected(without="a05")
    assert [each.name for each in await listings.visibility.list(ADA, "team")] == [f"a{number}" for number in range(8)]
