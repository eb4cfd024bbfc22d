"""Asks a pod whether it is ready, at its operations port."""

import aiohttp

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

    async def is_ready(self, pod: Pod) -> bool:
        try:
            url = pod.url("ops", "/readyz", default=self._port)
            async with self._session.get(url, allow_redirects=False) as answer:
                return answer.status == _OK
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False
