"""Tokens for direct calls of declared peers: the gateway exchanges the token of this pod (RFC 8693).

A token is bound to the key of this process and valid for one peer. It is reused until shortly before it expires. With
the delegation of a task, the token names the principal of the task.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx

from fleetwright_a2a.authentication import DELEGATION, Delegation
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.tools.peers.dpop_auth import SCHEME, DPoPKey

_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_WAIT_SECONDS: Final = 5.0
_SPARE_SECONDS: Final = 60
"""The time before its expiry at which a token is replaced. A call may begin with several requests."""
_MOST: Final = 256


class ExchangeUnavailable(Exception):  # noqa: N818 - describes the gateway
    """The gateway issued no token; the text says why."""


@dataclass(frozen=True, slots=True)
class DirectToken:
    token: str = field(repr=False)
    delegation: str = field(repr=False)
    """The delegation for the peer, which only the peer can use."""
    until: float
    """The time until which the token is used, in seconds since the epoch."""

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"{SCHEME} {self.token}", DELEGATION: self.delegation}


class TokenExchange:
    def __init__(
        self,
        gateway: str,
        client: httpx.AsyncClient,
        key: DPoPKey,
        *,
        read_token: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        """
        Args:
            gateway: The URL of the gateway.
            client: Connects to the gateway. The caller closes it.
            key: The key to which the tokens are bound.
            read_token: Returns the current token of the pod, and raises OSError if there is none.
            now: Returns seconds since the epoch.
        """
        self._url = f"{gateway}/oauth/token"
        self._client = client
        self._key = key
        self._read_token = read_token
        self._now = now
        self._nonce = ""
        self._tokens: OrderedDict[tuple[str, str], DirectToken] = OrderedDict()

    async def token_for(self, peer: Peer, delegation: Delegation | None) -> DirectToken:
        """Return a token for a peer. Raises: ExchangeUnavailable."""
        name = f"{peer.namespace}/{peer.name}"
        held = (name, "" if delegation is None else delegation.token)
        found = self._tokens.get(held)
        if found is not None and self._now() < found.until:
            return found
        found = self._tokens[held] = await self._issued(name, delegation)
        self._tokens.move_to_end(held)
        if len(self._tokens) > _MOST:
            self._tokens.popitem(last=False)
        return found

    def forget(self, token: str) -> None:
        """Forget a token that a peer has refused, so that the next call gets another one."""
        self._tokens = OrderedDict((held, each) for held, each in self._tokens.items() if each.token != token)

    async def _issued(self, audience: str, delegation: Delegation | None) -> DirectToken:
        try:
            pod = self._read_token()
        except OSError as error:
            raise ExchangeUnavailable(f"the token for the gateway cannot be read: {error.strerror}") from None
        subject = {"subject_token": pod, "subject_token_type": _JWT}
        if delegation is not None:
            subject = {"subject_token": delegation.token, "subject_token_type": _JWT}
            subject |= {"actor_token": pod, "actor_token_type": _JWT}
        return await self._ask({"grant_type": _GRANT, "audience": audience, **subject})

    async def _ask(self, form: Mapping[str, str]) -> DirectToken:
        answer = await self._post(form)
        if answer.status_code == httpx.codes.BAD_REQUEST and (nonce := answer.headers.get("DPoP-Nonce")):
            self._nonce = nonce
            if _error(answer) == "use_dpop_nonce":
                answer = await self._post(form)
        if answer.status_code != httpx.codes.OK:
            raise ExchangeUnavailable(f"the gateway answered {answer.status_code} {_error(answer)}".rstrip())
        try:
            found = json.loads(answer.content)
            until = self._now() + max(0, int(found["expires_in"]) - _SPARE_SECONDS)
            return DirectToken(str(found["access_token"]), str(found["delegation"]), until)
        except (ValueError, KeyError, TypeError):
            raise ExchangeUnavailable("the gateway sent no token") from None

    async def _post(self, form: Mapping[str, str]) -> httpx.Response:
        proof = self._key.proof("POST", self._url, nonce=self._nonce)
        try:
            return await self._client.post(self._url, data=form, headers={SCHEME: proof}, timeout=_WAIT_SECONDS)
        except (httpx.HTTPError, OSError) as error:
            raise ExchangeUnavailable(f"the gateway is not reachable: {type(error).__name__}") from None


def _error(answer: httpx.Response) -> str:
    """Return the OAuth error code of a response; empty if the response has none, or one with unexpected characters."""
    try:
        found = json.loads(answer.content)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return found[:64] if isinstance(found, str) and found.isascii() and found.replace("_", "").isalpha() else ""
