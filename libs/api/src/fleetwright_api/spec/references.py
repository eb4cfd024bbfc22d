"""References from a spec to objects of the same namespace, and selectors of labels."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReference:
    """An object of the same namespace; the referring field determines the object's kind."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReference:
    """A key of a Secret or of a ConfigMap."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyReference:
    """The Secret with the API key of a model provider."""

    name: str
    key: str = "api-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityReference:
    """The Secret with CA certificates that are trusted in addition to the system's certificates."""

    name: str
    key: str = "ca.crt"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderSource:
    """An HTTP header whose value is in a Secret."""

    name: str
    secret_key_ref: KeyReference


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredLabels:
    """A selector that matches objects with all of these labels. An empty selector matches no object."""

    match_labels: Mapping[str, str]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return bool(self.match_labels) and self.match_labels.items() <= labels.items()
