"""The A2A 1.0 agent card, compiled from the same inputs as `agent.json`, so that it matches the runtime.

The card lists the supported protocol versions, the mounted and the declared skills, and the security schemes and
extensions in use. The served card also has signatures. It is stored in its own ConfigMap, so that a new signing key
does not create a new revision.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json, sha256_hex
from fleetwright_api.skill_document import SkillContent
from fleetwright_api.spec.a2a import DeclaredSkillSpec
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.encoder import encode
from fleetwright_operator.build.card_extensions import declared_extensions
from fleetwright_operator.build.card_v03 import with_older_versions
from fleetwright_operator.build.config.auth_settings import dialects, hides_skills_from_public
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.build.manifest import Manifest, Owner, manifest

_BINDINGS = {"1.0": ("JSONRPC", "HTTP+JSON"), "0.3": ("JSONRPC", "HTTP+JSON"), "0.1": ("JSONRPC",)}
_INPUT_MODES = ("text/plain",)
_PICTURES = ("image/gif", "image/jpeg", "image/png", "image/webp")
RPC_PATH = "/a2a"
_OUTPUT_MODES = ("text/markdown", "text/plain")
_BEARER = {
    "bearer": {
        "httpAuthSecurityScheme": {
            "scheme": "Bearer",
            "description": "The token of a named client or of an agent that may call this one.",
        }
    }
}
_API_KEY = {
    "apiKey": {
        "apiKeySecurityScheme": {
            "location": "header",
            "name": "X-API-Key",
            "description": "The token of a named client.",
        }
    }
}


Sign = Callable[[Mapping[str, Any]], Sequence[Mapping[str, str]]]
"""Signs a card. Equal cards get equal signatures."""


@dataclass(frozen=True, slots=True)
class ServedCard:
    """The card that the agent serves, byte for byte."""

    text: str
    extended: str | None = None
    """The card for authenticated callers; None if the public card is complete."""

    @property
    def digest(self) -> str:
        """The digest that the runtime reports."""
        return f"sha256:{sha256_hex(self.text)}"


def unsigned(_: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Return no signatures, for installations without a key."""
    return []


def served_card(card: Mapping[str, Any], sign: Sign) -> ServedCard:
    extended = signed_card(card, sign) if card["capabilities"].get("extendedAgentCard") else None
    return ServedCard(signed_card(public_card(card), sign), extended=extended)


def signed_card(card: Mapping[str, Any], sign: Sign) -> str:
    """Return the text of a card with its signatures and the keys of older versions."""
    signatures = list(sign(card))
    return canonical_json({**with_older_versions(card), **({"signatures": signatures} if signatures else {})})


def public_card(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the public card. If there is an extended card, the public card has the addresses but not the skills."""
    hides_skills = card["capabilities"].get("extendedAgentCard")
    return {**card, "skills": [_chat(card["description"])]} if hides_skills else card


def card_config_map(
    owner: Owner, spec: AgentSpec, card: ServedCard, at_gateway: Mapping[str, str] | None = None
) -> Manifest:
    """Return the ConfigMap that a running agent watches, with its cards and its log level.

    Args: `at_gateway` are the cards that the gateway serves, by key.
    """
    head = manifest("v1", "ConfigMap", name=names.agent_card(owner.name), owner=owner)
    extended = {names.EXTENDED_CARD_KEY: card.extended} if card.extended else {}
    level = spec.logging.level
    logging = {names.LOG_LEVEL_KEY: level} if level else {}
    return {**head, "data": {names.CARD_KEY: card.text, **extended, **(at_gateway or {}), **logging}}


def agent_card(agent: AgentView, *, url: str, skills: Sequence[SkillContent]) -> dict[str, Any]:
    name, spec = agent.name, agent.spec
    description = spec.description or f"The agent {name}."
    schemes = _BEARER | (_API_KEY if spec.auth.api_key else {})
    return {
        "name": name,
        "description": description,
        "version": spec.version,
        **({"provider": encode(spec.provider)} if spec.provider else {}),
        **({"documentationUrl": spec.documentation_url} if spec.documentation_url is not None else {}),
        **({"iconUrl": spec.icon_url} if spec.icon_url is not None else {}),
        "supportedInterfaces": _interfaces(spec, url),
        "capabilities": {
            "streaming": True,
            "pushNotifications": offers_push(spec),
            "extensions": declared_extensions(spec),
            **({"extendedAgentCard": True} if hides_skills_from_public(spec) else {}),
        },
        "securitySchemes": schemes,
        # A caller needs only one of the schemes.
        "securityRequirements": [{"schemes": {scheme: {}}} for scheme in schemes],
        "defaultInputModes": input_modes(spec),
        "defaultOutputModes": list(_OUTPUT_MODES),
        "skills": _skills(spec, skills) or [_chat(description)],
    }


def _skills(spec: AgentSpec, mounted: Sequence[SkillContent]) -> list[dict[str, Any]]:
    """Return the mounted and the declared skills. A skill that is both mounted and declared is listed as mounted."""
    declared = {entry.id: entry for entry in spec.a2a.skills}
    shown = {skill.name: _skill(skill) for skill in mounted}
    shown = {**shown, **{key: _declared(entry) for key, entry in declared.items() if key not in shown}}
    for key, entry in declared.items():
        if entry.output_schema is not None:
            # An answer with structured data always contains text as well.
            shown[key]["outputModes"] = [entry.output_media_type, *_OUTPUT_MODES]
    return list(shown.values())


def _declared(entry: DeclaredSkillSpec) -> dict[str, Any]:
    name = entry.id if entry.name is None else entry.name
    return {"id": entry.id, "name": name, "description": entry.description, "tags": list(entry.tags) or ["skill"]}


def _interfaces(spec: AgentSpec, url: str) -> list[dict[str, str]]:
    """Return the interfaces, newest first, because clients take the first one that they support."""
    public = spec.a2a.public_url
    address = f"{(url if public is None else public).rstrip('/')}{RPC_PATH}"
    return [
        {"url": address, "protocolBinding": binding, "protocolVersion": version}
        for version in dialects(spec)
        for binding in _BINDINGS[version]
    ]


def _skill(skill: SkillContent) -> dict[str, Any]:
    return {"id": skill.name, "name": skill.name, "description": skill.description, "tags": ["skill"]}


def _chat(description: str) -> dict[str, Any]:
    return {"id": "chat", "name": "Chat", "description": description, "tags": ["chat"]}


def input_modes(spec: AgentSpec) -> list[str]:
    """Return the executor's declared input modes, or else text, plus images if the model supports vision."""
    if spec.executor is not None:
        return list(spec.executor.input_modes or _INPUT_MODES)
    return [*_INPUT_MODES, *(_PICTURES if spec.model.vision else ())]
