"""Adds a proof of possession (DPoP, RFC 9449) to each request whose token is bound to the key of this process.

If a peer does not know such tokens, the agent repeats a call for itself once, with the token that the operator minted
for this pair of agents. A call for a principal fails instead, because that token names this agent only.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

import httpx

from fleetwright_a2a.authentication import DELEGATION
from fleetwright_agent.tools.peers.failures import PrincipalNotAccepted

if TYPE_CHECKING:
    from fleetwright_a2a.tokens.keys import SigningKey

SCHEME: Final = "DPoP"
_NONCE: Final = "DPoP-Nonce"
_CHALLENGE: Final = "WWW-Authenticate"
_UNABLE_SECONDS: Final = 60.0
"""The time for which a peer gets only opaque tokens after it did not know a bound one. It may be starting."""
_MOST_OWN_TOKENS: Final = 256
Origin = tuple[str, str, int | None]
"""Scheme, host and port."""


class DPoPKey:
    """The key of this process. It is created at its first use, and exists only in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Args: `now` returns seconds since the epoch."""
        self._now = now
        self._key: SigningKey | None = None

    def proof(self, method: str, url: str, *, token: str = "", nonce: str = "") -> str:
        """Return a proof for one request."""
        # Imported lazily: only agents with declared peers and a gateway make proofs.
        from fleetwright_a2a.tokens.dpop import make_proof, new_proof_key

        if self._key is None:
            self._key = new_proof_key()
        return make_proof(self._key, method=method, url=url, now=self._now(), token=token, nonce=nonce)


class DPoPAuth(httpx.Auth):
    def __init__(
        self, key: DPoPKey, *, opaque: Callable[[httpx.URL], str | None], monotonic: Callable[[], float]
    ) -> None:
        """
        Args:
            key: The key to which the tokens are bound.
            opaque: Returns the token that the operator minted for the peer at a URL, if there is one.
            monotonic: Returns seconds that never go back.
        """
        self._key = key
        self._opaque = opaque
        self._nonces: dict[Origin, str] = {}
        self._monotonic = monotonic
        self._unable: dict[Origin, float] = {}
        """The peers that do not know bound tokens, and the times until which this is assumed."""
        self._own_tokens: OrderedDict[str, None] = OrderedDict()
        self.refused: Callable[[str], None] = lambda _: None
        """Called with a token that a peer has refused."""

    def is_unable(self, url: httpx.URL) -> bool:
        """Return whether the peer at this URL has recently not known a token that is bound to a key."""
        return self._monotonic() < self._unable.get(_origin(url), float("-inf"))

    def permit_opaque(self, token: str) -> None:
        """Permit the opaque token in place of this token, which names no principal.

        Only the most recent tokens are remembered. A request with any other token fails instead.
        """
        self._own_tokens[token] = None
        self._own_tokens.move_to_end(token)
        if len(self._own_tokens) > _MOST_OWN_TOKENS:
            self._own_tokens.popitem(last=False)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Raises: PrincipalNotAccepted."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != SCHEME:
            yield request
            return
        origin = _origin(request.url)
        request.headers[SCHEME] = self._proof(request, token, origin)
        response = yield request
        if nonce := response.headers.get(_NONCE):
            self._nonces[origin] = nonce
        if response.status_code != httpx.codes.UNAUTHORIZED:
            return
        challenge = response.headers.get(_CHALLENGE, "")
        if "use_dpop_nonce" in challenge and nonce:
            # The peer refused the request before it read the message, so it still processes the message only once.
            request.headers[SCHEME] = self._proof(request, token, origin)
            response = yield request
        elif SCHEME not in challenge and token not in self._own_tokens:
            raise PrincipalNotAccepted(request, response)
        elif SCHEME not in challenge and (opaque := self._opaque(request.url)) is not None:
            self._unable[origin] = self._monotonic() + _UNABLE_SECONDS
            for name in (SCHEME, DELEGATION):
                request.headers.pop(name, None)
            request.headers["Authorization"] = f"Bearer {opaque}"
            response = yield request
            return
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self.refused(token)

    def _proof(self, request: httpx.Request, token: str, origin: Origin) -> str:
        return self._key.proof(request.method, str(request.url), token=token, nonce=self._nonces.get(origin, ""))


def _origin(url: httpx.URL) -> Origin:
    return url.scheme, url.host, url.port
