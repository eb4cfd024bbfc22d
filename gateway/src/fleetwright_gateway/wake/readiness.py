"""Asks a pod whether it is ready, at its operations port."""

import aiohttp

from fleetwright_a2a.authentication import AGENT_UID
from fleetwright_gateway.cluster.fleet import Pod

_SECONDS = 0.3
_OK = 200


class ReadinessProbe:
    def __init__(self, *, port: int) -> None:
        self._port = port
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=_SECONDS),
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def is_ready(self, pod: Pod, agent_uid: str) -> bool:
        """Return whether the agent with this uid is ready in the pod.

        A pod of another agent may have got the address meanwhile. Images of users need not send the uid.
        """
        try:
            url = pod.url("ops", "/readyz", default=self._port)
            async with self._session.get(url, allow_redirects=False) as answer:
                return answer.status == _OK and answer.headers.get(AGENT_UID, agent_uid) == agent_uid
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
