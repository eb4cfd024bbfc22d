"""O13, O17: two operators, a suspended one, and one that is killed at work."""

import asyncio
import signal
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from e2e.control_plane.installation import ACCOUNT
from e2e.faults.plan import Fault
from tests.support.machine import ceiling
from tests.support.waiting import await_until, within


async def test_o13_suspended_leader_writes_nothing_when_it_resumes(stand, capsys):
    """O13: SIGSTOP suspends the leader at work for longer than the Lease. The standby takes over.

    While the leader is suspended, each of its writes waits for a response. A signal at any moment might fall between
    the check of the Lease and the system call that sends a write, and no client can prevent that write. When the leader
    resumes, it learns nothing about the Lease for a while, so only its own clock can stop the writes in its queue.
    """
    space = await stand.space()
    first = await stand.operator(space)
    second = await stand.operator(space, name="second", start=False)
    await _stand_by(second.process)
    names = [f"poet-{number}" for number in range(60)]  # More than there are workers.
    resumed = asyncio.Event()
    first.proxy.first = lambda _space, _name: resumed.wait()
    await asyncio.gather(*(stand.agent(space, name) for name in names))
    await _all_writes_wait(first.plan, space)
    first.process.send(signal.SIGSTOP)
    slept = time.monotonic()
    resumed.set()
    await second.process.leading(seconds=ceiling())
    took = time.monotonic() - slept
    await stand.wait_until_programmed(space, *names)
    await stand.quiet(space)
    before, other_before = Counter(first.plan.writes[space]), Counter(second.plan.writes[space])

    first.proxy.gate = lambda request: Fault.TIMEOUT if "/leases" in request.path else None
    first.process.send(signal.SIGCONT)
    assert await _stood_back(first.process)
    assert first.plan.writes[space] - before == Counter(), "no write happens after it woke"
    assert second.plan.writes[space] - other_before == Counter()
    with capsys.disabled():
        print(f"\n  the second led {took:.1f} s after the first fell asleep")


async def _all_writes_wait(plan, space):
    """Return when the operator has sent writes, and sends no other until one of them gets its response."""
    async with within("all writes wait", shown=lambda: plan.total_writes(space)):
        sent = 0
        while not sent or plan.total_writes(space) != sent:
            sent = plan.total_writes(space)
            await asyncio.sleep(2)


async def _stood_back(process) -> bool:
    """Return True if the process exited, or became a standby.

    It becomes a standby if it was stopped during its request for the Lease and got the answer late.
    """
    async with within("the operator exits or stands by"):
        while process.exit_code is None:
            if (await process.metrics()).get("fleetwright_leader") == 0.0:
                return True
            await asyncio.sleep(0.1)
    return process.exit_code == 1


@pytest.mark.exhaustive
async def test_o17_successor_completes_a_burst_after_sigkill(stand):
    """O17, O18: SIGKILL, as from the OOM killer, in the middle of 200 agents, one of which is invalid."""
    space = await stand.space()
    operator = await stand.operator(space)
    operator.plan.outage = lambda _, name: Fault.INTERNAL if name == "apply deployments/poison" else None
    names = [f"poet-{number:03}" for number in range(199)]
    await asyncio.gather(*(stand.agent(space, name) for name in ("poison", *names)))
    await stand.until(space, lambda: operator.plan.total_writes(space) > 600, "the work is under way")
    await operator.process.stop(signal.SIGKILL)
    vacant = {"spec": {"holderIdentity": ""}}
    await stand.client.merge("Lease", f"{space}-system", ACCOUNT, vacant)
    await operator.process.started()
    await stand.wait_until_programmed(space, *names)
    assert stand.condition("Agent", space, "poison", "Programmed").get("status") != "True"
    writes = operator.plan.total_writes(space)
    assert writes <= 2 * 200 * 14, "at most twice what an undisturbed run needs"


@pytest.mark.parametrize(
    "hours",
    [pytest.param(1, id="an hour ahead"), pytest.param(-1, id="an hour behind", marks=pytest.mark.exhaustive)],
)
async def test_o17_wrong_clock_acquires_no_lease_and_rotates_no_token(stand, tmp_path, hours):
    """O17: an operator with a wrong clock runs beside a leader with a correct one, and then alone.

    The operator corrects a date in the future, and nothing more.
    """
    space = await stand.space()
    first = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    before = _tokens_and_pods(stand, space)
    clock = _Clock(tmp_path)
    clock.jump(hours)
    second = await stand.operator(space, name="wrong", start=False, command=clock.command)
    await _stand_by(second.process)
    await asyncio.sleep(6)
    assert (await first.process.metrics())["fleetwright_leader"] == 1.0
    assert (await second.process.metrics())["fleetwright_leader"] == 0.0
    await first.process.stop(signal.SIGKILL)
    await second.process.leading(seconds=ceiling())
    await stand.quiet(space, seconds=3)
    assert second.plan.total_writes(space) <= 4
    assert _tokens_and_pods(stand, space) == before
    await stand.agent(space, instructions="Help well.")
    await stand.wait_until_programmed(space, "poet")


@pytest.mark.parametrize(
    "hours",
    [pytest.param(1, id="ahead and back"), pytest.param(-1, id="back and ahead", marks=pytest.mark.exhaustive)],
)
async def test_o17_clock_jump_moves_no_lease_and_rotates_no_token(stand, tmp_path, hours):
    """O17: the leader's clock jumps by an hour and back, while it resyncs every two seconds and the standby observes
    it.
    """
    space = await stand.space()
    clock = _Clock(tmp_path)
    eager = {"FLEETWRIGHT_RESYNC_SECONDS": "2"}
    leader = await stand.operator(space, command=clock.command, **eager)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    other = await stand.operator(space, name="second", start=False, **eager)
    await _stand_by(other.process)
    before = _tokens_and_pods(stand, space)
    lease = await _lease(stand, space)
    written = leader.plan.writes[space].copy()
    for jump in (hours, 0):
        clock.jump(jump)
        await _three_passes(leader)
        await _lease_is_renewed(stand, space, since=lease, hours=jump)
        await stand.quiet(space)
    new_writes = leader.plan.writes[space] - written
    # A date in the future is corrected: both Secrets, the status, and twice the annotation of the pod.
    assert new_writes.total() <= 5, new_writes
    assert other.plan.total_writes(space) == 0
    assert (await leader.process.metrics())["fleetwright_leader"] == 1.0
    after = await _lease(stand, space)
    assert after["renewTime"] > lease["renewTime"]
    assert {**after, "renewTime": lease["renewTime"]} == lease
    assert _tokens_and_pods(stand, space) == before
    await stand.agent(space, instructions="Help well.")
    await stand.wait_until_programmed(space, "poet")
    assert other.plan.total_writes(space) == 0


async def _three_passes(operator) -> None:
    passes = await operator.passes()

    async def are_done() -> bool:
        return await operator.passes() >= passes + 3

    await await_until(are_done, "the operator reconciles its agent three more times", pause=0.2)


async def _lease_is_renewed(stand, space: str, *, since: dict[str, str], hours: int) -> None:
    """Wait until the leader has renewed its Lease, with a clock that is wrong by so many hours."""
    last = since

    async def is_renewed() -> bool:
        nonlocal last
        last = await _lease(stand, space)
        later = datetime.fromisoformat(last["renewTime"]) - datetime.fromisoformat(since["renewTime"])
        return last["renewTime"] != since["renewTime"] and round(later / timedelta(hours=1)) == hours

    await await_until(is_renewed, f"the Lease is renewed {hours} hours off", shown=lambda: (since, last), pause=0.2)


class _Clock:
    """The clock of an operator's machine, which a test can set."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "seconds"
        self.command = (sys.executable, "-m", "tests.faults.wrong_clock", str(self._file))
        self.jump(0)

    def jump(self, hours: int) -> None:
        # The write is atomic, because the operator may read the file at any moment.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(hours * 3600))
        fresh.replace(self._file)


async def _stand_by(process) -> None:
    process.start()

    async def is_ready() -> bool:
        assert process.exit_code is None, f"the operator exited with {process.exit_code}:\n{process.log.read_text()}"
        return await process.ask("/readyz") == "ok"

    await await_until(is_ready, "the second operator is ready as a standby", shown=process.log.read_text, pause=0.1)


async def _lease(stand, space: str) -> dict[str, str]:
    return (await stand.client.find("Lease", f"{space}-system", ACCOUNT))["spec"]


def _tokens_and_pods(stand, space: str) -> dict[str, object]:
    """Return the valid tokens, and the sources of the pods' environment and files."""
    objects = stand.cache.objects(space).items()
    tokens = {name: body["data"]["token"] for (kind, name), body in objects if "token" in body.get("data", {})}
    assert tokens
    templates = {name: body["spec"]["template"] for (kind, name), body in objects if kind == "Deployment"}
    return {**tokens, **templates}
