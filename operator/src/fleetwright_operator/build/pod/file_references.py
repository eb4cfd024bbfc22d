"""The keys of users' Secrets and ConfigMaps that an agent's pod mounts as files.

The pod reads the files again on each use, so their content is in no revision and never passes through the operator.
This module does not read their content.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_operator.build.pod.mounted_files import CONFIG_MAP, SECRET

DEFAULT_API_KEY = "api-key"
DEFAULT_CA_KEY = "ca.crt"
_COLLECTOR = "spec.telemetry.otlp"
_MODEL = "spec.model"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class FileReference:
    """One key of one object; `field` is the field of the spec that names it."""

    kind: str
    name: str
    key: str
    field: str

    @property
    def object(self) -> tuple[str, str]:
        return self.kind, self.name

    @property
    def path(self) -> str:
        """Return the path below the configuration folder, as in `agent.json`."""
        return names.mounted_file(self.kind, self.name, self.key)


def file_references(agent: Mapping[str, Any]) -> tuple[FileReference, ...]:
    """Return every file of an agent; those of the model come first."""
    own = agent["spec"].get("model", {})
    fallbacks = [(f"{_MODEL}.fallbacks[{n}]", fallback) for n, fallback in enumerate(own.get("fallbacks", ()))]
    found = [instructions_file(agent)]
    for field, model in ((_MODEL, own), *fallbacks):
        found += [api_key(model, field), certificate_authority(model, field), *header_files(model, field).values()]
    found += [collector_authority(agent), *collector_headers(agent).values()]
    return tuple(reference for reference in found if reference is not None)


def instructions_file(agent: Mapping[str, Any]) -> FileReference | None:
    source = agent["spec"].get("instructionsFrom", {})
    field = "spec.instructionsFrom"
    if reference := source.get("configMapKeyRef"):
        return FileReference(kind=CONFIG_MAP, name=reference["name"], key=reference["key"], field=field)
    return _secret_key(source.get("secretKeyRef"), field=field)


def api_key(model: Mapping[str, Any], field: str) -> FileReference | None:
    """Args: `field` is the field of the model in the spec."""
    return _secret_key(model.get("apiKeySecretRef"), field=f"{field}.apiKeySecretRef", default=DEFAULT_API_KEY)


def certificate_authority(model: Mapping[str, Any], field: str) -> FileReference | None:
    return _secret_key(model.get("caSecretRef"), field=f"{field}.caSecretRef", default=DEFAULT_CA_KEY)


def header_files(model: Mapping[str, Any], field: str) -> dict[str, FileReference]:
    """Return the headers of model calls, by name."""
    return _headers(model, field=field)


def collector_headers(agent: Mapping[str, Any]) -> dict[str, FileReference]:
    """Return the headers of trace exports, by name."""
    return _headers(_collector(agent), field=_COLLECTOR)


def collector_authority(agent: Mapping[str, Any]) -> FileReference | None:
    return _secret_key(_collector(agent).get("caSecretRef"), field=f"{_COLLECTOR}.caSecretRef", default=DEFAULT_CA_KEY)


def _collector(agent: Mapping[str, Any]) -> Mapping[str, Any]:
    otlp: Mapping[str, Any] = agent["spec"].get("telemetry", {}).get("otlp", {})
    return otlp


def _headers(holder: Mapping[str, Any], *, field: str) -> dict[str, FileReference]:
    headers: Iterable[Mapping[str, Any]] = holder.get("headersFrom", ())
    found = {
        header["name"]: _secret_key(header["secretKeyRef"], field=f"{field}.headersFrom[{header['name']}]")
        for header in headers
    }
    return {name: reference for name, reference in found.items() if reference is not None}


def _secret_key(reference: Mapping[str, Any] | None, *, field: str, default: str = "") -> FileReference | None:
    if not reference:
        return None
    return FileReference(kind=SECRET, name=reference["name"], key=reference.get("key", default), field=field)
