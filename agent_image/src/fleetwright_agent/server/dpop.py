"""Verifies the proofs of possession (DPoP, RFC 9449) of other agents, whose tokens come from the gateway.

A token that is bound to a key is accepted only with a proof that this key has signed. The proof names the request and a
nonce of this process. An attacker can therefore use neither a stolen token nor a recorded request.
"""

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from fleetwright_a2a.authentication import AuthenticationFailure, RequestTarget

_SENTENCE: Final = "The token or its proof of possession is not accepted."
_NONCE_SENTENCE: Final = "Repeat the request with a proof that has the nonce of the header DPoP-Nonce."


@dataclass(frozen=True, slots=True)
class PresentedProof:
    """The proofs of a request whose token has the scheme `DPoP`."""

    proofs: Sequence[str] = field(repr=False)
    """The values of the header `DPoP`."""
    target: RequestTarget


class Proofs:
    def __init__(self, addresses: Callable[[], Collection[str]]) -> None:
        """Args: `addresses` returns the addresses by which callers may know this agent, without the path of A2A."""
        self._addresses = addresses
        # Imported lazily: most agents have no gateway, and the import takes a tenth of the startup time.
        from fleetwright_a2a.tokens.dpop import Nonces, ProofVerifier

        self._verifier = ProofVerifier()
        # The memory of used proofs ends with the process, and so do the nonces.
        self._nonces = Nonces(secrets.token_bytes(32))

    def refusal(
        self, token: str, thumbprint: str, proof: PresentedProof, *, now: float
    ) -> AuthenticationFailure | None:
        """Return why a proof is not accepted, or None if it is.

        Args:
            token: The token of the request.
            thumbprint: The thumbprint of the key to which the token is bound.
            proof: The proof, and the request that it must name.
            now: Seconds since the epoch.
        """
        from fleetwright_a2a.tokens.dpop import InvalidProof, NonceRequired, ProofRequest

        urls = [f"{address.rstrip('/')}{proof.target.path}" for address in self._addresses()]
        request = ProofRequest(proof.target.method, urls, token, thumbprint)
        try:
            self._verifier.verify(proof.proofs, request, nonces=self._nonces, now=now)
        except NonceRequired:
            return refusal("use_dpop_nonce", _NONCE_SENTENCE, nonce=self._nonces.current(now))
        except (InvalidProof, ValueError):
            return refusal("invalid_dpop_proof", nonce=self._nonces.current(now))
        return None


def refusal(error: str, sentence: str = _SENTENCE, *, nonce: str = "") -> AuthenticationFailure:
    """Return the failure of a request with a bound token.

    Args: `error` is the code in the challenge (RFC 9449 §7.1).
    """
    return AuthenticationFailure("proof", sentence, challenge=f'DPoP error="{error}", algs="ES256"', nonce=nonce)
