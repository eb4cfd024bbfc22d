"""O4, O9, O10: deletions during a reconcile, and deletions that the operator observes late."""

import asyncio
import json
from base64 import b64decode
from hashlib import sha256

import pytest
from e2e.faults import flows
from e2e.faults.plan import Case, Fault
from tests.support.waiting import await_until

from fleetwright_api.names import FIELD_MANAGER, MANAGED_BY

WRITES = 10
"""A plain agent makes at least this many writes. A case whose write does not come fails."""


@pytest.mark.parametrize("again", [False, True], ids=["O9: deleted", "O9: deleted and recreated with the same name"])
async def test_agent_deleted_at_any_write_leaves_no_orphan(stand, again):
    """O9: delete the Agent before each of its writes, in a namespace of its own, and in some cases recreate it."""
    reference = await stand.space()
    spaces = [await stand.space() for _ in range(WRITES)]
    operator = await stand.operator(reference, *spaces)
    await stand.agent(reference)
    await stand.wait_until_programmed(reference, "poet")
    await stand.quiet(reference)
    due = dict(zip(spaces, range(1, WRITES + 1), strict=True))
    counts = dict.fromkeys(spaces, 0)
    first_uid: dict[str, str] = {}

    async def strike(space: str, _: str) -> None:
        if space not in due or space in first_uid:
            return
        counts[space] += 1
        if counts[space] == due[space]:
            first_uid[space] = stand.cache.find("Agent", space, "poet")["metadata"]["uid"]
            await stand.client.delete("Agent", space, "poet")
            if again:
                await stand.agent(space)

    operator.proxy.first = strike
    await asyncio.gather(*(stand.agent(space) for space in spaces))
    await asyncio.gather(*(_struck(stand, space, first_uid) for space in spaces))

    def clean(space: str) -> bool:
        found = stand.cache.objects(space).values()
        owners = {
            o["uid"] for body in found for o in body["metadata"].get("ownerReferences", ()) if o["kind"] == "Agent"
        }
        if not again:
            return not owners and all(kind in {"PersistentVolumeClaim"} for kind, _ in _ours(stand, space))
        alive = stand.cache.find("Agent", space, "poet")
        return alive is not None and owners == {alive["metadata"]["uid"]} and first_uid[space] not in owners

    for space in spaces:
        await stand.until(space, lambda space=space: clean(space), f"{space}: no orphan")
    if again:
        for space in spaces:
            await stand.wait_until_programmed(space, "poet")
            await stand.until(space, lambda space=space: _as_good(stand, space, reference), f"{space}: all children")


async def _struck(stand, space: str, struck: dict) -> None:
    await stand.until(space, lambda: space in struck, f"{space}: its write")


@pytest.mark.parametrize(
    ("kind", "suspended"),
    [
        pytest.param("Agent", False, id="O9: an active agent"),
        pytest.param("Agent", True, id="O9: a suspended agent, whose status never changes"),
        pytest.param("Skill", False, id="O9: an unused skill"),
    ],
)
async def test_lost_deletion_event_recreates_children_at_most_once(stand, kind, suspended):
    """O9: the watch event of a deletion is lost. The next status write reveals it, long before the next list."""
    space = await stand.space()
    operator = await stand.operator(space)
    first_lists = _own_lists(operator)
    if kind == "Skill":
        await stand.client.apply(flows.skill("poet", space, "Three lines."))
    else:
        await stand.agent(space, suspend=suspended)
    await stand.wait_until_programmed(space, "poet", kind=kind)
    # The operator lists once more soon after its start. This list must not hide the lost event.
    await await_until(
        lambda: not first_lists.items() & _own_lists(operator).items(),
        "the operator lists every kind again after its start",
        shown=lambda: sorted(path for path, _ in first_lists.items() & _own_lists(operator).items()),
    )
    await stand.quiet(space)

    operator.plan.begin(space, [Case(Fault.DROPPED, (f"DELETED {kind.lower()}s/poet", 1))])
    await stand.client.delete(kind, space, "poet")
    await stand.until(space, lambda: operator.plan.struck[space], "the news is lost")
    await stand.until(space, lambda: not _but_memory(stand, space), "its children go")
    await stand.quiet(space, seconds=3)
    assert not _but_memory(stand, space)
    writes = operator.plan.writes[space]
    assert 0 < writes.total() <= 2 * WRITES, f"recreated at most once: {dict(writes)}"


def _own_lists(operator) -> dict[str, bytes]:
    """Return the last lists that the operator read itself. kopf lists with another limit, and only at its start."""
    return {path: body for path, body in operator.proxy.listed.items() if "limit=100" in path}


def _but_memory(stand, space: str) -> list[tuple[str, str]]:
    objects = stand.cache.objects(space).items()
    ours = [key for key, body in objects if body["metadata"].get("labels", {}).get(MANAGED_BY) == FIELD_MANAGER]
    return [(kind, name) for kind, name in ours if kind != "PersistentVolumeClaim"]


def _ours(stand, space: str) -> list[tuple[str, str]]:
    objects = stand.cache.objects(space).items()
    return [key for key, body in objects if "fleetwright.dev/agent" in body["metadata"].get("labels", {})]


def _as_good(stand, space: str, reference: str) -> bool:
    """Return True if the children match those of an undisturbed agent by kind and number."""
    kinds = [sorted(kind for kind, _ in _ours(stand, place)) for place in (space, reference)]
    return kinds[0] == kinds[1]


async def test_o4_stale_list_deletes_and_recreates_nothing(stand):
    """O4: a new process gets stale lists from before its agent existed, as from an API server that lags behind."""
    space = await stand.space()
    first = await stand.operator(space)
    stale = dict(first.proxy.listed)
    await stand.client.apply(flows.skill("haiku", space, "Three lines."))
    await stand.agent(space, skills=[{"name": "haiku"}])
    await stand.wait_until_ready(space, "poet")
    await stand.quiet(space)
    uids = {key: body["metadata"]["uid"] for key, body in stand.cache.objects(space).items()}
    before = dict(stand.cache.objects(space))
    assert await first.process.stop() == 0

    # The agent is cached, but its children are not, so all of them seem to be missing.
    children = {path: body for path, body in stale.items() if "fleetwright.dev" not in path}
    second = await stand.operator(space, name="second", start=False)
    second.proxy.replayed = children
    await second.process.started()
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    assert {key: body["metadata"]["uid"] for key, body in stand.cache.objects(space).items()} == uids
    assert second.proxy.requests["DELETE"] == 0
    assert stand.cache.objects(space) == before


async def test_o4_stale_list_does_not_restore_a_revoked_token(stand):
    """O4: the periodic list is stale, as a slow one is. Changes since then must survive."""
    space = await stand.space()
    operator = await stand.operator(space, FLEETWRIGHT_RESYNC_SECONDS="2")
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")

    def lists_of_secrets() -> dict[str, bytes]:
        return {path: body for path, body in operator.proxy.listed.items() if f"/namespaces/{space}/secrets" in path}

    await await_until(
        lambda: all(b"poet-client-default" in body for body in lists_of_secrets().values()),
        "every list of Secrets has the token",
        shown=lists_of_secrets,
    )
    operator.proxy.replayed = lists_of_secrets()
    first = await _client_token(stand, space)
    await stand.client.delete("Secret", space, "poet-client-default")
    await stand.until(space, lambda: _agree(stand, space, but=first), "another token, and its digest")
    for _ in range(60):
        await asyncio.sleep(0.1)
        assert _agree(stand, space, but=first)


async def _client_token(stand, space: str) -> str:
    return str((await stand.client.find("Secret", space, "poet-client-default"))["data"]["token"])


def _agree(stand, space: str, *, but: str) -> bool:
    """Return True if the agent lists exactly the token of its client, and that token is not `but`."""
    secrets = {name: body["data"] for (kind, name), body in stand.cache.objects(space).items() if kind == "Secret"}
    token = secrets.get("poet-client-default", {}).get("token", but)
    listed = json.loads(b64decode(secrets["poet-auth"]["callers.json"]))["callers"]
    return token != but and [each["sha256"] for each in listed] == [sha256(b64decode(token)).hexdigest()]


async def test_o10_namespace_deletion_completes_while_operator_runs(stand):
    """O10: a namespace is deleted with everything in it. The operator must not enter a hot loop."""
    space, other = await stand.space(), await stand.space()
    # Writes there are forbidden, and read rights disappear before the operator learns of the namespace's deletion.
    stand.may_be_refused = f"/namespaces/{space}/"
    operator = await stand.operator(space, other)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    before = await operator.passes()
    await stand.client.delete("Namespace", None, space)
    await _namespace_is_gone(stand, space)
    await stand.agent(other)
    await stand.wait_until_programmed(other, "poet")
    assert await operator.passes() - before < 100
    assert operator.process.exit_code is None


async def test_o10_namespace_deletion_completes_without_an_operator(stand):
    """O10: the operator is uninstalled before the namespace is deleted.

    No finalizer of the operator blocks the deletion.
    """
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.agent(space, "painter")
    await stand.wait_until_programmed(space, "poet", "painter")
    assert await operator.process.stop() == 0
    await stand.client.delete("Agent", space, "poet")
    await stand.until(space, lambda: {k for k, _ in _ours_of(stand, space, "poet")} <= {"PersistentVolumeClaim"},
                      "the children of the deleted agent are gone")  # fmt: skip
    await stand.client.delete("Namespace", None, space)
    await _namespace_is_gone(stand, space)


async def _namespace_is_gone(stand, space: str) -> None:
    async def is_gone() -> bool:
        return await stand.client.find("Namespace", None, space) is None

    await await_until(is_gone, f"the namespace {space} is deleted", pause=0.1)


def _ours_of(stand, space: str, agent: str) -> list[tuple[str, str]]:
    objects = stand.cache.objects(space).items()
    return [key for key, body in objects if body["metadata"].get("labels", {}).get("fleetwright.dev/agent") == agent]
