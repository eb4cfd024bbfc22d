"""The gateway of a local run: the real gateway in a thread of this process, in front of a local cluster.

The other threads call the methods of `LocalGateway`, which run on the event loop of the gateway.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from fleetwright_cli.dev.gateway.local_cluster import LocalCluster
from fleetwright_cli.dev.gateway.local_tokens import AUDIENCE
from fleetwright_gateway.app import build_gateway, following
from fleetwright_gateway.process.serving import serve
from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.settings import GatewaySettings

_HOST: Final = "127.0.0.1"
_START_SECONDS: Final = 30.0
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlace:
    """The address, the folder and the token of the gateway of a local run."""

    port: int
    folder: Path
    """A private folder for the keys that sign tokens."""
    person_token: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self.port}"

    @property
    def keys_file(self) -> Path:
        return self.folder / "ring.json"


class LocalGateway:
    def __init__(self, place: GatewayPlace, *, namespace: str, on_wake: Callable[[str], None]) -> None:
        """Args: `on_wake` is called on the gateway's thread with the name of an agent, and must return at once."""
        self._place = place
        self._loop = asyncio.new_event_loop()
        self._leaving = asyncio.Event()
        self._serving: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._cluster = LocalCluster(namespace=namespace, person_token=place.person_token, on_wake=on_wake)

    @property
    def url(self) -> str:
        return self._place.url

    def start(self) -> None:
        """Start the gateway, and return when it serves.

        Raises:
            OSError: The gateway could not be started.
        """
        self._thread.start()
        try:
            self._serving.result(_START_SECONDS)
        except (TimeoutError, ValueError) as error:
            raise OSError(f"the gateway could not be started: {error}") from None

    def close(self) -> None:
        """Stop the gateway. Open requests get a second to end."""
        self._loop.call_soon_threadsafe(self._leaving.set)
        self._thread.join()

    def put_agent(
        self, name: str, spec: Mapping[str, Any], *, cards: Mapping[str, str], token: str, phase: str
    ) -> None:
        self._call(lambda: self._cluster.put_agent(name, spec, cards=cards, token=token, phase=phase))

    def put_pod(self, name: str, *, port: int, ops_port: int, ready: bool) -> None:
        ports = {"a2a": port, "ops": ops_port}
        self._call(lambda: self._cluster.put_pod(name, host=_HOST, ports=ports, ready=ready))

    def remove_pod(self, name: str) -> None:
        self._call(lambda: self._cluster.remove_pod(name))

    def remove_agent(self, name: str) -> None:
        self._call(lambda: self._cluster.remove_agent(name))

    def _call(self, act: Callable[[], Answer]) -> Answer:
        async def run() -> Answer:
            return act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_START_SECONDS)

    def _run(self) -> None:
        try:
            # The runner cancels tasks that remain at the end, and closes the loop.
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except Exception as error:
            logging.getLogger(__name__).exception("the gateway ended")
            if not self._serving.done():
                self._serving.set_exception(error)

    async def _serve(self) -> None:
        settings = GatewaySettings(
            url=self.url, keys_file=self._place.keys_file, audience=AUDIENCE, service_account=self._place.folder
        )
        traffic, ops = listen(self._place.port, host=_HOST), listen(0, host=_HOST)
        async with (
            build_gateway(self._cluster, settings) as gateway,
            following(gateway.synchroniser),
        ):
            serving = asyncio.ensure_future(
                serve(
                    gateway.traffic,
                    gateway.ops,
                    traffic_socket=traffic,
                    ops_socket=ops,
                    drain_seconds=1,
                    leaving=self._leaving,
                )
            )
            self._serving.set_result(None)
            await serving
