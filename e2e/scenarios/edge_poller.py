"""Runs in the pod of an agent: calls another agent again and again, and prints a line whenever an answer changes.

Both ways are used: direct calls with one token of the gateway that is bound to a key, and calls through the gateway. A
line is `direct 200` or `gateway 404`; 0 means that there was no answer. The token stays the same until it has been
used for three minutes, so a refusal is never due to its expiry.

    python edge_poller.py http://GATEWAY http://CALLEE NAMESPACE/CALLEE SECONDS

SECONDS is the time after which a request ends without an answer.
"""

import sys
import threading
import time
from collections.abc import Callable

import httpx

from fleetwright_a2a.tokens.dpop import make_proof, new_proof_key
from fleetwright_agent.config.layout import Layout

_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 1}}
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_DIRECT_PAUSE = 0.03
_GATEWAY_PAUSE = 0.12
"""Seconds between two requests. The gateway accepts ten requests of one caller a second."""
_TOKEN_SECONDS = 180.0
_VERSION = {"A2A-Version": "1.0"}


class DirectPolls:
    """Calls of the agent itself, on one connection, with a proof for each request."""

    def __init__(self, gateway: str, callee: str, audience: str, seconds: float) -> None:
        self._gateway = f"{gateway}/oauth/token"
        self._callee = f"{callee}/a2a"
        self._audience = audience
        self._key = new_proof_key()
        self._http = httpx.Client(timeout=seconds, trust_env=False)
        self._nonces = {self._gateway: "", self._callee: ""}
        self._token = ""
        self._until = 0.0

    def status(self) -> int:
        """Return the status of a call. A token that is due is replaced, but never one that was refused."""
        if time.monotonic() > self._until:
            subject = {"subject_token": pod_token(), "subject_token_type": _JWT}
            form = {"grant_type": _GRANT, "audience": self._audience, **subject}
            issued = self._post(self._gateway, data=form)
            if issued.status_code == httpx.codes.OK:
                self._token, self._until = issued.json()["access_token"], time.monotonic() + _TOKEN_SECONDS
        return self._post(self._callee, token=self._token, json=_REQUEST).status_code

    def _post(self, url: str, *, token: str = "", **body: object) -> httpx.Response:
        """Send a request, and again with the nonce of the receiver if it asks for that."""
        for _ in range(2):
            proof = make_proof(self._key, method="POST", url=url, now=time.time(), token=token, nonce=self._nonces[url])
            headers = {"DPoP": proof, **_VERSION, **({"Authorization": f"DPoP {token}"} if token else {})}
            answer = self._http.post(url, headers=headers, **body)  # type: ignore[arg-type]
            nonce = answer.headers.get("DPoP-Nonce", "")
            if nonce in {"", self._nonces[url]}:
                break
            self._nonces[url] = nonce
        return answer


class GatewayPolls:
    """Calls through the gateway, with the token of the pod."""

    def __init__(self, gateway: str, audience: str, seconds: float) -> None:
        self._url = f"{gateway}/agents/{audience}/a2a"
        self._http = httpx.Client(timeout=seconds, trust_env=False)

    def status(self) -> int:
        headers = {"Authorization": f"Bearer {pod_token()}", **_VERSION}
        return self._http.post(self._url, headers=headers, json=_REQUEST).status_code


def pod_token() -> str:
    return Layout().gateway_token_file.read_text().strip()


def poll(name: str, status: Callable[[], int], pause: float) -> None:
    last = -1
    while True:
        try:
            found = status()
        except httpx.HTTPError:
            found = 0
        if found != last:
            print(f"{name} {found}\n", end="", flush=True)  # one write, because two threads print
            last = found
        time.sleep(pause)


def main() -> None:
    gateway, callee, audience = sys.argv[1:4]
    seconds = float(sys.argv[4])
    direct = DirectPolls(gateway, callee, audience, seconds)
    threading.Thread(target=poll, args=("direct", direct.status, _DIRECT_PAUSE), daemon=True).start()
    poll("gateway", GatewayPolls(gateway, audience, seconds).status, _GATEWAY_PAUSE)


if __name__ == "__main__":
    main()
