"""Tokens for direct calls of declared peers: the gateway exchanges the token of this pod (RFC 8693).

A token is bound to the key of this process and valid for one peer. With the delegation of a task, the token names the
principal of the task. Each message needs a new exchange, because the delegation that the peer gets is bound to one task
of the peer. Calls without a message reuse the newest token until shortly before it expires.

With a delegation, an exchange is repeated like a request to a peer, because no other token names the principal.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import httpx

from fleetwright_a2a.authentication import DELEGATION, TASK, Delegation, encode_task_id
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.tools.peers.dpop_auth import SCHEME, DPoPKey
from fleetwright_agent.tools.peers.retries import RequestRetries, Sleep

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
    """The delegation for the peer, which only the peer can use; empty for a call without a message."""
    until: float
    """The time until which the token is used, in seconds since the epoch."""

    @property
    def headers(self) -> Mapping[str, str]:
        delegated = {DELEGATION: self.delegation} if self.delegation else {}
        return {"Authorization": f"{SCHEME} {self.token}", **delegated}


class TokenExchange:
    def __init__(
        self,
        gateway: str,
        client: httpx.AsyncClient,
        key: DPoPKey,
        *,
        read_token: Callable[[], str],
        now: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """
        Args:
            gateway: The URL of the gateway.
            client: Connects to the gateway. The caller closes it.
            key: The key to which the tokens are bound.
            read_token: Returns the current token of the pod, and raises OSError if there is none.
            now: Returns seconds since the epoch.
            sleep: Waits for a number of seconds before an exchange is repeated.
        """
        self._url = f"{gateway}/oauth/token"
        self._client = client
        self._key = key
        self._read_token = read_token
        self._now = now
        self._sleep = sleep
        self._nonce = ""
        self._tokens: OrderedDict[tuple[str, str], DirectToken] = OrderedDict()

    async def token_for(
        self, peer: Peer, delegation: Delegation | None, *, continues: str | None = None
    ) -> DirectToken:
        """Return a token for a peer. Raises: ExchangeUnavailable.

        Args: `continues` is the task of the peer to which a message is sent; empty if the message begins a task, and
        None if no message is sent.
        """
        name = f"{peer.namespace}/{peer.name}"
        held = (name, "" if delegation is None else delegation.token)
        found = self._tokens.get(held)
        if continues is None and found is not None and self._now() < found.until:
            return found
        # A read has a short time limit, within which an exchange cannot be repeated.
        repeats = delegation is not None and continues is not None
        issued = await self._issued(name, delegation, continues or "", repeats=repeats)
        found = self._tokens[held] = replace(issued, delegation="")
        self._tokens.move_to_end(held)
        if len(self._tokens) > _MOST:
            self._tokens.popitem(last=False)
        return found if continues is None else issued

    def forget(self, token: str) -> None:
        """Forget a token that a peer has refused, so that the next call gets another one."""
        self._tokens = OrderedDict((held, each) for held, each in self._tokens.items() if each.token != token)

    async def _issued(
        self, audience: str, delegation: Delegation | None, audience_task: str, *, repeats: bool
    ) -> DirectToken:
        try:
            pod = self._read_token()
        except OSError as error:
            raise ExchangeUnavailable(f"the token for the gateway cannot be read: {error.strerror}") from None
        subject = {"subject_token": pod, "subject_token_type": _JWT}
        stated: dict[str, str] = {}
        if delegation is not None:
            subject = {"subject_token": delegation.token, "subject_token_type": _JWT}
            subject |= {"actor_token": pod, "actor_token_type": _JWT}
            stated = {TASK: encode_task_id(delegation.task_id)}
        target = {"audience": audience, **({"audience_task": audience_task} if audience_task else {})}
        form = {"grant_type": _GRANT, **target, **subject}
        return self._token_of(await self._answer(form, stated, audience, repeats=repeats))

    def _token_of(self, answer: httpx.Response) -> DirectToken:
        if answer.status_code != httpx.codes.OK:
            raise ExchangeUnavailable(f"the gateway answered {answer.status_code} {_error(answer)}".rstrip())
        try:
            found = json.loads(answer.content)
            until = self._now() + max(0, int(found["expires_in"]) - _SPARE_SECONDS)
            return DirectToken(str(found["access_token"]), str(found["delegation"]), until)
        except (ValueError, KeyError, TypeError):
            raise ExchangeUnavailable("the gateway sent no token") from None

    async def _answer(
        self, form: Mapping[str, str], stated: Mapping[str, str], audience: str, *, repeats: bool
    ) -> httpx.Response:
        """Return the response to a form.

        Args:
            stated: The header with the task of the delegation, if there is one.
            repeats: True to repeat the exchange after a temporary failure.
        """
        attempt = partial(self._attempt, form, stated)
        try:
            return await (RequestRetries(audience, self._sleep).run(attempt) if repeats else attempt())
        except httpx.HTTPStatusError as error:
            return error.response
        except (httpx.HTTPError, OSError) as error:
            raise ExchangeUnavailable(f"the gateway is not reachable: {type(error).__name__}") from None

    async def _attempt(self, form: Mapping[str, str], stated: Mapping[str, str]) -> httpx.Response:
        """Send a form, and send it again if the gateway asks for a nonce. Raises: httpx.HTTPStatusError."""
        answer = await self._post(form, stated)
        if answer.status_code == httpx.codes.BAD_REQUEST and (nonce := answer.headers.get("DPoP-Nonce")):
            self._nonce = nonce
            if _error(answer) == "use_dpop_nonce":
                answer = await self._post(form, stated)
        return answer.raise_for_status()

    async def _post(self, form: Mapping[str, str], stated: Mapping[str, str]) -> httpx.Response:
        headers = {SCHEME: self._key.proof("POST", self._url, nonce=self._nonce), **stated}
        return await self._client.post(self._url, data=form, headers=headers, timeout=_WAIT_SECONDS)


def _error(answer: httpx.Response) -> str:
    """Return the OAuth error code of a response; empty if the response has none, or one with unexpected characters."""
    try:
        found = json.loads(answer.content)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return found[:64] if isinstance(found, str) and found.isascii() and found.replace("_", "").isalpha() else ""
