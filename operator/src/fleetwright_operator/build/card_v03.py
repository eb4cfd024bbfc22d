"""The served card with the additional keys that clients of A2A 0.3 and 0.1 look for.

All clients get the same document. The signature covers only the 1.0 card, which 1.0 verifiers extract from the
document. A2A 0.3 signs other bytes, so clients of 0.3 cannot verify the signature. The additional keys contain no new
information.
"""

from collections.abc import Mapping
from typing import Any

Card = Mapping[str, Any]
Older = dict[str, Any]

V03_PROTOCOL = "0.3.0"


def with_older_versions(card: Card) -> dict[str, Any]:
    spoken = {interface["protocolVersion"] for interface in card["supportedInterfaces"]}
    served = dict(card)
    if "0.3" in spoken:
        served |= _v03(card)
    if "0.1" in spoken:
        served |= _v01(card, served)
    return served


def _v03(card: Card) -> Older:
    interfaces = [each for each in card["supportedInterfaces"] if each["protocolVersion"] == "0.3"]
    return {
        "protocolVersion": V03_PROTOCOL,
        "url": interfaces[0]["url"],
        "preferredTransport": interfaces[0]["protocolBinding"],
        "additionalInterfaces": [{"url": each["url"], "transport": each["protocolBinding"]} for each in interfaces],
        "securitySchemes": {
            name: {**scheme, **_v03_scheme(scheme)} for name, scheme in card["securitySchemes"].items()
        },
        "security": [{name: [] for name in requirement["schemes"]} for requirement in card["securityRequirements"]],
    }


def _v03_scheme(scheme: Mapping[str, Any]) -> Older:
    """Return a security scheme for 0.3.

    In 1.0 the type of a scheme is the key that contains it; in 0.3 the type is a field. The values must equal those of
    1.0, because clients of 1.0 that support older cards read the 0.3 values and then verify the signature.
    """
    if "apiKeySecurityScheme" in scheme:
        key = scheme["apiKeySecurityScheme"]
        return {"type": "apiKey", "in": key["location"], "name": key["name"], "description": key["description"]}
    bearer = scheme["httpAuthSecurityScheme"]
    return {"type": "http", "scheme": bearer["scheme"], "description": bearer["description"]}


def _v01(card: Card, served: Older) -> Older:
    """Return the keys for 0.1. A card of 0.1 has one address and no protocol version."""
    interface = next(each for each in card["supportedInterfaces"] if each["protocolVersion"] == "0.1")
    return {
        "url": served.get("url", interface["url"]),
        "capabilities": {**card["capabilities"], "stateTransitionHistory": False},
        "authentication": {"schemes": sorted(card["securitySchemes"])},
    }
