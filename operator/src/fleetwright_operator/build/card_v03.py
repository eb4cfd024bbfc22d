"""The served card as clients of A2A 0.3 and 0.1 read it too: the keys they look for, beside those of 1.0.

One document for everybody. A signature covers the card of 1.0, which verifiers of 1.0 find again in it; 0.3 signed
other bytes, and finds none that it could verify. Refuses: saying anything that the card does not say.
"""

from collections.abc import Mapping
from typing import Any

Card = Mapping[str, Any]
Older = dict[str, Any]

V03_PROTOCOL = "0.3.0"


def superset(card: Card) -> dict[str, Any]:
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
    """In 1.0 a scheme's kind is a key around it, in 0.3 a word in it.

    The values must be the same: readers of 1.0 that know older cards take these, and then verify the signature.
    """
    if "apiKeySecurityScheme" in scheme:
        key = scheme["apiKeySecurityScheme"]
        return {"type": "apiKey", "in": key["location"], "name": key["name"], "description": key["description"]}
    bearer = scheme["httpAuthSecurityScheme"]
    return {"type": "http", "scheme": bearer["scheme"], "description": bearer["description"]}


def _v01(card: Card, served: Older) -> Older:
    """It was before cards said which protocol they are of: an address is all it needs."""
    interface = next(each for each in card["supportedInterfaces"] if each["protocolVersion"] == "0.1")
    return {
        "url": served.get("url", interface["url"]),
        "capabilities": {**card["capabilities"], "stateTransitionHistory": False},
        "authentication": {"schemes": sorted(card["securitySchemes"])},
    }
