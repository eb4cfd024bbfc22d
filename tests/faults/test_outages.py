"""O2, O3, O6, O7: lasting outages, and how soon everything recovers after them."""

import asyncio
import json
import time
import urllib.request

import pytest
from e2e.cluster.processes import terminate
from e2e.control_plane.installation import ACCOUNT
from e2e.faults import flows
from e2e.faults.plan import Fault
from tests.support.machine import ceiling

OUTAGE_SECONDS = 30.0
HALF_OPEN_SECONDS = 120.0
KINDS = 25
"""The approximate number of watched kinds."""
LASTING = (
    Fault.CONFLICT,
    Fault.REJECTED,
    Fault.THROTTLED,
    Fault.INTERNAL,
    Fault.UNAVAILABLE,
    Fault.GATEWAY,
    Fault.TIMEOUT,
    Fault.RESET,
)


async def test_o2_agent_is_programmed_soon_after_30_s_of_write_errors(stand, capsys):
    """O2: each class of fault for 30 seconds, concurrently.

    The operator promises 2 seconds. The test allows twenty times that, which is less than the retry after a minute.
    """
    spaces = {await stand.space(): fault for fault in LASTING}
    # Errors that need a person are retried after a minute, as by default.
    operator = await stand.operator(
        *spaces, FLEETWRIGHT_REQUEST_SECONDS="1.5", FLEETWRIGHT_WORKERS="24", FLEETWRIGHT_STALLED_SECONDS="60"
    )
    over = time.monotonic() + OUTAGE_SECONDS
    operator.plan.outage = lambda space, _: spaces[space] if time.monotonic() < over else None
    for space in spaces:
        await stand.agent(space)
    await asyncio.sleep(max(0.0, over - time.monotonic()))
    asked = {space: operator.plan.total_writes(space) for space in spaces}

    async def healed(space: str) -> float:
        await stand.wait_until_programmed(space, "poet")
        return time.monotonic() - over

    figures = dict(zip(spaces.values(), await asyncio.gather(*map(healed, spaces)), strict=True))
    with capsys.disabled():
        shown = ", ".join(f"{fault} {seconds:.1f} s" for fault, seconds in figures.items())
        print(f"\n  after the outage: {shown}; writes meanwhile: {sorted(asked.values())}")
    # One agent is retried about every 1.5 seconds, with a read of its status.
    assert max(asked.values()) <= 4 * OUTAGE_SECONDS
    assert operator.process.exit_code is None


async def test_o3_token_replaced_on_disk_is_read_again(stand):
    """O3: 401, then the new token on disk; nothing restarts."""
    space = await stand.space()
    operator = await stand.operator(space)
    kubeconfig = stand.folder / space / "first" / "kubeconfig"
    document = json.loads(kubeconfig.read_text())
    old = document["users"][0]["user"]["token"]
    document["users"][0]["user"]["token"] = (await stand.release(space)).token
    kubeconfig.write_text(json.dumps(document))

    def refuse_the_old(request) -> Fault | None:
        return Fault.UNAUTHORIZED if old in request.headers.get("Authorization", "") else None

    operator.proxy.gate = refuse_the_old
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    assert operator.process.exit_code is None


async def test_o3_missing_right_on_one_kind_is_named_and_isolated(stand):
    """O3: 403 on one kind from the start, given back later."""
    stand.may_be_refused = "networkpolicies"
    space = await stand.space()
    await stand.release(space)
    operator = await stand.operator(space, start=False)
    name = f"{space}-system-{ACCOUNT}"
    role = await stand.client.find("Role", space, name)
    rules = [rule for rule in role["rules"] if "networkpolicies" not in rule["resources"]]
    await stand.client.merge("Role", space, name, {"rules": rules})
    await operator.process.started()

    await stand.agent(space)
    await stand.client.apply(flows.skill("haiku", space, "Three lines."))

    def named() -> bool:
        found = stand.condition("Agent", space, "poet", "Programmed")
        return found.get("reason") == "Forbidden" and 'patch resource "networkpolicies"' in found["message"]

    await stand.until(space, named, "the missing verb and kind in the condition")
    await stand.wait_until_programmed(space, "haiku", kind="Skill")
    await stand.client.merge("Role", space, name, {"rules": role["rules"]})
    await stand.wait_until_programmed(space, "poet")
    assert operator.process.exit_code is None


WATCHES = [
    pytest.param({"seconds": 1.0}, id="O6: every watch is closed after a second"),
    pytest.param({"muted": True}, id="O6: watches stay open and send nothing, the next list recovers"),
    pytest.param({"bookmarks_only": True}, id="O6: watches send only bookmarks, the next list recovers"),
    pytest.param({"too_old": "stream"}, id="O6: every watch reports at once that its version is too old"),
    pytest.param({"too_old": "connect"}, id="O6: every watch is refused with 410"),
]


@pytest.mark.parametrize("trouble", WATCHES)
async def test_disturbed_watch_loses_no_object(stand, trouble):
    """O6: no object is missed whatever happens to watches, and the lists do not become a storm."""
    space = await stand.space()
    operator = await stand.operator(space, FLEETWRIGHT_RESYNC_SECONDS="4")
    for key, value in trouble.items():
        setattr(operator.proxy.watches, key, value)
    lists, began = operator.proxy.requests["LIST"], time.monotonic()
    for number in range(5):
        await stand.agent(space, f"poet-{number}")
        await asyncio.sleep(1)
    await stand.wait_until_programmed(space, *(f"poet-{number}" for number in range(5)))
    rate = (operator.proxy.requests["LIST"] - lists) / (time.monotonic() - began)
    assert rate < 30, f"{rate:.0f} lists a second of {KINDS} kinds"
    assert operator.process.exit_code is None


@pytest.mark.exhaustive
async def test_o6_half_open_watches_time_out_and_reconnect(stand):
    """O6: without a resync.

    A watch that is silent for longer than the bookmark interval is dead, and a list replaces it.
    """
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    began = time.monotonic()
    lists = operator.proxy.requests["LIST"]
    operator.proxy.watches.muted = True
    await stand.agent(space, "painter")
    await stand.client.delete("Service", space, "poet")
    await stand.wait_until_programmed(space, "painter")
    await stand.until(space, lambda: stand.cache.find("Service", space, "poet"), "a lost child is missed")
    await asyncio.sleep(max(0.0, began + HALF_OPEN_SECONDS - time.monotonic()))
    rounds = (time.monotonic() - began) / 60 + 2
    assert operator.proxy.requests["LIST"] - lists <= rounds * KINDS, "each kind again about once a minute"
    operator.proxy.watches.muted = False
    await stand.agent(space, "sculptor")
    await stand.wait_until_programmed(space, "sculptor")
    assert operator.process.exit_code is None


async def test_o7_api_server_outage_causes_no_restart_or_write_storm(stand, plane):
    """O7: the API server is down for a minute, longer than the Lease lasts; etcd is compacted before it returns."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_ready(space, "poet")
    await stand.quiet(space)
    before, pid = stand.versions(space), operator.process.pid
    written = operator.plan.total_writes(space)

    for process in plane.processes.recorded():
        if process.name == "kube-apiserver":
            terminate(process)
    _compact(plane)
    await asyncio.sleep(60)
    plane.start()
    # Otherwise its own watches would start again only after their backoff.
    plane.restart_controllers()
    await operator.process.leading(seconds=ceiling())
    await stand.agent(space, "painter")
    await stand.wait_until_programmed(space, "painter")
    assert operator.process.exit_code is None
    assert operator.process.pid == pid
    after = stand.versions(space)
    changed = {key for key in before if after.get(key) != before[key] and key[0] not in {"Pod", "Deployment"}}
    assert changed == set()
    assert operator.plan.total_writes(space) - written <= 40, "the cost of one more agent, with a margin"


def _compact(plane) -> None:
    """Compact the whole history, so that every watch resumes at a version that is too old."""
    base = f"http://127.0.0.1:{plane.place.ports.etcd}/v3"
    with urllib.request.urlopen(f"{base}/kv/range", data=b'{"key": "AA=="}', timeout=ceiling()) as answer:
        revision = json.load(answer)["header"]["revision"]
    with urllib.request.urlopen(
        f"{base}/kv/compaction", data=json.dumps({"revision": revision}).encode(), timeout=ceiling()
    ):
        return
