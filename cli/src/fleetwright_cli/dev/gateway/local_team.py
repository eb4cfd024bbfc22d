"""The team of a local run: its gateway, and the agents that sleep.

An agent with `spec.sleep` starts with its first message and ends when it is idle, as its pod does on a cluster.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.activity import parse_activity
from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_cli.dev.gateway.local_gateway import GatewayPlace, LocalGateway
from fleetwright_cli.dev.gateway.sleep_loop import SleepLoop
from fleetwright_cli.dev.layout import AgentFiles
from fleetwright_cli.dev.processes import LOOPBACK
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.credentials.jws import new_secret
from fleetwright_operator.credentials.keyring import Ring, renew_ring, ring_text
from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.rollout.sleep import SleepState, next_state

_AWAKE: Final = "Running"
_ASLEEP: Final = "Asleep"
_STATUS_SECONDS: Final = 3.0
_RUN_SECONDS: Final = 365 * 86_400
"""Longer than any local run."""


class LocalTeam:
    def __init__(
        self,
        place: GatewayPlace,
        ring: Ring,
        *,
        namespace: str,
        wake: Callable[[str], None],
        put_to_sleep: Callable[[str, SleepState], None],
        now: Callable[[], int],
    ) -> None:
        """Args:
        place: The port and the files of the gateway.
        ring: The keys with which the gateway signs tokens.
        namespace: The namespace of all agents.
        wake: Starts the process of an agent and waits for it.
        put_to_sleep: Ends the process of an agent, and calls `note_asleep`.
        now: Returns the seconds since the epoch.
        """
        place.folder.mkdir(parents=True, exist_ok=True)
        place.keys_file.write_text(ring_text(ring))
        self._loop = SleepLoop(wake=wake, look=self._look)
        self._gateway = LocalGateway(place, namespace=namespace, on_wake=self._loop.request)
        self._put_to_sleep = put_to_sleep
        self._wake = wake
        self._now = now
        self._specs: dict[str, AgentSpec] = {}
        self._agents: dict[str, AgentFiles] = {}
        self._ops_ports: dict[str, int] = {}
        self._asleep: dict[str, SleepState] = {}

    @property
    def url(self) -> str:
        return self._gateway.url

    def start(self) -> None:
        """Raises: OSError: The gateway could not be started."""
        self._gateway.start()
        self._loop.start()

    def close(self) -> None:
        self._loop.close()
        self._gateway.close()

    def sleeps(self, name: str) -> bool:
        return name in self._asleep

    def may_sleep(self, name: str) -> bool:
        spec = self._specs.get(name)
        return spec is not None and spec.sleep is not None

    def put(self, agent: AgentFiles, spec: AgentSpec) -> None:
        """Add or update an agent. A new agent that may sleep is asleep at first."""
        if spec.sleep is None:
            self._asleep.pop(agent.name, None)
        elif agent.name not in self._specs:
            self._asleep[agent.name] = SleepState(since=self._now())
        self._specs[agent.name], self._agents[agent.name] = spec, agent
        self._publish(agent.name)

    def remove(self, name: str) -> None:
        for known in (self._specs, self._agents, self._ops_ports, self._asleep):
            known.pop(name, None)
        self._gateway.remove_agent(name)

    def note_awake(self, name: str) -> None:
        """Record that the process of an agent is about to start."""
        self._asleep.pop(name, None)

    def note_started(self, name: str, *, port: int, ops_port: int, ready: bool) -> None:
        """Record that the process of an agent was started, or that it became ready."""
        self._asleep.pop(name, None)
        self._ops_ports[name] = ops_port
        self._publish(name)
        self._gateway.put_pod(name, port=port, ops_port=ops_port, ready=ready)

    def note_ended(self, name: str) -> None:
        self._ops_ports.pop(name, None)
        self._gateway.remove_pod(name)

    def note_asleep(self, name: str, state: SleepState) -> None:
        """Record that an agent is idle, so that its process ends or has ended."""
        self._asleep[name] = state
        self.note_ended(name)
        self._publish(name)

    def _publish(self, name: str) -> None:
        agent = self._agents[name]
        phase = _ASLEEP if name in self._asleep else _AWAKE
        cards = {names.CARD_KEY: agent.card, **agent.gateway_cards}
        self._gateway.put_agent(name, encode(self._specs[name]), cards=cards, token=agent.gateway_token, phase=phase)

    def _look(self) -> None:
        """Wake the agents whose own work is due, and put idle ones to sleep."""
        for name, state in list(self._asleep.items()):
            if state.wakes_at is not None and state.wakes_at <= self._now():
                self._wake(name)
        for name, ops_port in list(self._ops_ports.items()):
            if asleep := self._next_state(name, ops_port):
                self._put_to_sleep(name, asleep)

    def _next_state(self, name: str, ops_port: int) -> SleepState | None:
        spec = self._specs.get(name)
        if spec is None or spec.sleep is None:
            return None
        now = self._now()
        activity = parse_activity(_report(ops_port).get("activity"), read_at=now, parse_time=parse_timestamp)
        return next_state(
            spec,
            None,
            has_pod=True,
            has_gateway=True,
            annotations={},
            is_rolled_out=True,
            has_new_revision=False,
            # Nothing scrapes the counters of a local run, so there is no scrape to wait for.
            activity=None if activity is None else replace(activity, scraped_at=now),
            ending=None,
            has_decision=False,
            # A local run has no Approvals.
            shows_questions=True,
            now=now,
        )


def _report(ops_port: int) -> Mapping[str, Any]:
    """Return the status that an agent reports; empty if it does not answer."""
    url = f"http://127.0.0.1:{ops_port}/status"
    try:
        with LOOPBACK.open(url, timeout=_STATUS_SECONDS) as answer:
            found: Mapping[str, Any] = read_json(answer.read())
            return found
    except (OSError, ValueError):
        return {}


def new_keys(now: int) -> Ring:
    """Return new keys for the tokens of one run."""
    return renew_ring((), now=now, rotation=Rotation(ttl=_RUN_SECONDS, overlap=0), new_secret=new_secret)


def token_file(state: Path) -> Path:
    """Return the file with the token of the person who runs the fleet."""
    return state / "gateway" / "token"
