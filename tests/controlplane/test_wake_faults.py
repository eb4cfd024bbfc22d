"""Each fault of the sweep at the gateway's patch that wakes an agent: the agent wakes once, and the caller is answered.

The API server, the operator and the gateway are real. The fault proxy of the sweep stands between the gateway and the
API server. The agents have no containers: this test reports their pods as ready, and answers in their place.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.ports import free_ports
from e2e.faults.plan import ERRORS, KILLS, Case, Fault, Plan
from e2e.faults.proxy import FaultProxy
from joserfc.jwk import ECKey
from tests.controlplane.conftest import Operator, Space
from tests.controlplane.faulted_wakes import AnsweringNode, Faults, GatewayProcess
from tests.support.controlplane.administrator import LONG_SECONDS
from tests.support.controlplane.sleep import has_phases, put_to_sleep
from tests.support.waiting import wait_until

OTHERS = (Fault.UNAUTHORIZED, Fault.EXPIRED, Fault.GATEWAY)
"""Answers of the API server that the sweep of the operator does not inject into writes."""
FAULTS: dict[str, tuple[tuple[Fault, ...], int]] = {
    **{f"error-{fault.name.lower()}".replace("_", "-"): ((fault,), 200) for fault in (*ERRORS, *OTHERS)},
    "error-rejected": ((Fault.REJECTED,), 503),
    "errors-twice": ((Fault.CONFLICT, Fault.RESET), 200),
    "errors-always": ((Fault.UNAVAILABLE, Fault.INTERNAL, Fault.RESET), 503),
    "error-and-timeout": ((Fault.THROTTLED, Fault.TIMEOUT), 200),
}
"""By the name of the agent: the faults of its successive wake patches, and the first answer that the caller gets."""
DEATHS: dict[str, Fault] = {fault.name.lower().replace("_", "-"): fault for fault in KILLS}


@dataclass
class SleepingFleet:
    space: Space
    gateway: GatewayProcess
    faults: Faults
    node: AnsweringNode
    tokens: dict[str, str]

    def wake(self, agent: str) -> list[int]:
        """Send a message, and again until it is answered. Return the status of each try."""
        tries: list[int] = []

        def is_answered() -> bool:
            status, retry_after = self.gateway.send(self.space.name, agent, self.tokens[agent])
            assert status in {0, 200} or (status == 503 and int(retry_after) > 0), (agent, status, retry_after)
            tries.append(status)
            return status == 200

        wait_until(is_answered, f"{agent} answers", shown=lambda: tries, pause=0.2)
        return tries

    def is_awake(self, agent: str) -> bool:
        return self.space.get("Agent", agent)["status"].get("phase") == "Running"


@pytest.fixture
def tokens(operator_with_gateway: Operator, space: Space) -> dict[str, str]:
    """Put one agent for each case to sleep. Return the tokens of their clients by agent."""
    names = [*FAULTS, *DEATHS]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: space.agent(name, sleep={"afterIdle": "1h"}), names))
    space.eventually(
        lambda: has_phases(space, dict.fromkeys(names, "Pending")), "all are written", promised=LONG_SECONDS
    )
    operator_with_gateway.stop()
    for name in names:
        put_to_sleep(space, name)
    operator_with_gateway.start()
    space.eventually(
        lambda: has_phases(space, dict.fromkeys(names, "Asleep")), "all of them sleep", promised=LONG_SECONDS
    )
    space.eventually(lambda: not space.list_objects("Pod"), "no pod is left")
    return {name: space.secret(f"{name}-client-default")["token"] for name in names}


@pytest.fixture
def faults(control_plane: Any, space: Space) -> Iterator[Faults]:
    plan = Plan()
    due = {name: faults for name, (faults, _) in FAULTS.items()} | {name: (fault,) for name, fault in DEATHS.items()}
    plan.begin(space.name, [Case(fault, (f"merge agents/{name}", 1)) for name in due for fault in due[name]])
    found = Faults(FaultProxy(control_plane.server, control_plane.ca, plan), plan)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def gateway(
    control_plane: Any,
    account_token: str,
    tokens: Any,
    faults: Faults,
    tmp_path: Path,
) -> Iterator[GatewayProcess]:
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [{**key, "iat": 0}]}))
    (tmp_path / "token").write_text(account_token)
    shutil.copy(control_plane.ca, tmp_path / "ca.crt")
    port, ops_port = free_ports()
    settings = {
        "KEYS_FILE": tmp_path / "keys.json",
        "SERVICE_ACCOUNT": tmp_path,
        "PORT": port,
        "OPS_PORT": ops_port,
    }
    environment = {f"FLEETWRIGHT_GATEWAY_{name}": str(value) for name, value in settings.items()}
    environment |= {**os.environ, "KUBERNETES_SERVICE_HOST": "127.0.0.1"}
    process = GatewayProcess(faults, environment, tmp_path / "gateway.log", port, ops_port)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def fleet(space: Space, gateway: GatewayProcess, faults: Faults, tokens: dict[str, str]) -> Iterator[SleepingFleet]:
    node = AnsweringNode(space)
    yield SleepingFleet(space, gateway, faults, node, tokens)
    node.stop()


def test_each_fault_of_the_wake_patch_wakes_the_agent_once(fleet: SleepingFleet) -> None:
    with ThreadPoolExecutor(8) as pool:
        tries = dict(zip(FAULTS, pool.map(fleet.wake, FAULTS), strict=True))
    assert {name: found[0] for name, found in tries.items()} == {name: first for name, (_, first) in FAULTS.items()}
    check_that_each_woke_once(fleet, FAULTS)
    assert {name: len(fleet.faults.stamps[name]) for name in FAULTS} == dict.fromkeys(FAULTS, 1)
    check_deaths(fleet)
    assert not fleet.faults.plan.due(fleet.space.name), "every fault has occurred"
    assert fleet.faults.proxy.refused == []


def check_deaths(fleet: SleepingFleet) -> None:
    """Kill the gateway at its wake patch. The caller repeats its message at the next process."""
    for name in DEATHS:
        with ThreadPoolExecutor(1) as pool:
            waking = pool.submit(fleet.wake, name)
            fleet.space.eventually(lambda: bool(fleet.faults.proxy.held), f"the gateway asks for {name}")
            fleet.gateway.kill()
            fleet.gateway.start()
            tries = waking.result(300)
        assert (name, tries[0], tries[-1]) == (name, 0, 200)
    check_that_each_woke_once(fleet, DEATHS)
    # The next process does not know whether its predecessor was heard, so it may ask again.
    assert len(fleet.faults.stamps["killed-before"]) == 1
    assert len(fleet.faults.stamps["killed-after"]) <= 2


def check_that_each_woke_once(fleet: SleepingFleet, agents: Collection[str]) -> None:
    for name in agents:
        fleet.space.eventually(lambda name=name: fleet.is_awake(name), f"{name} is awake")
    assert {name: len(fleet.node.pods[name]) for name in agents} == dict.fromkeys(agents, 1)
