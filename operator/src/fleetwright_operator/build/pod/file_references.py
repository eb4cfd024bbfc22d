"""The keys of users' Secrets and ConfigMaps that an agent's pod mounts as files.

The pod reads the files at each use, so their content is not part of a revision. The operator never reads their content.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.model import ModelEndpointSpec
from fleetwright_api.spec.references import ApiKeyReference, AuthorityReference, HeaderSource, KeyReference
from fleetwright_operator.build.pod.file_mounts import CONFIG_MAP, SECRET

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


def describe_missing_key(field: str, kind: str, name: str, key: str, keys: Collection[str]) -> str:
    """Return the message for a key that an object does not have. Args: `keys` are those that it has."""
    known = ", ".join(sorted(keys)) or "none"
    return f"{field} names key {key!r} of {kind} {name!r}, which has: {known}. Add it or use another one"


def file_references(spec: AgentSpec) -> tuple[FileReference, ...]:
    """Return every file of an agent; those of the model come first."""
    models: list[tuple[str, ModelEndpointSpec]] = [(_MODEL, spec.model)]
    models += [(f"{_MODEL}.fallbacks[{n}]", fallback) for n, fallback in enumerate(spec.model.fallbacks)]
    found = [instructions_file(spec)]
    for field, model in models:
        found += [api_key(model, field), certificate_authority(model, field), *header_files(model, field).values()]
    found += [collector_authority(spec), *collector_headers(spec).values()]
    return tuple(reference for reference in found if reference is not None)


def instructions_file(spec: AgentSpec) -> FileReference | None:
    source, field = spec.instructions_from, "spec.instructionsFrom"
    if source is None:
        return None
    if reference := source.config_map_key_ref:
        return FileReference(kind=CONFIG_MAP, name=reference.name, key=reference.key, field=field)
    return _secret_key(source.secret_key_ref, field=field)


def api_key(model: ModelEndpointSpec, field: str) -> FileReference | None:
    """Args: `field` is the field of the model in the spec."""
    return _secret_key(model.api_key_secret_ref, field=f"{field}.apiKeySecretRef")


def certificate_authority(model: ModelEndpointSpec, field: str) -> FileReference | None:
    return _secret_key(model.ca_secret_ref, field=f"{field}.caSecretRef")


def header_files(model: ModelEndpointSpec, field: str) -> dict[str, FileReference]:
    """Return the headers of model calls, by name."""
    return _headers(model.headers_from or (), field=field)


def collector_headers(spec: AgentSpec) -> dict[str, FileReference]:
    """Return the headers of trace exports, by name."""
    return _headers(spec.telemetry.otlp.headers_from, field=_COLLECTOR) if spec.telemetry else {}


def collector_authority(spec: AgentSpec) -> FileReference | None:
    authority = spec.telemetry.otlp.ca_secret_ref if spec.telemetry else None
    return _secret_key(authority, field=f"{_COLLECTOR}.caSecretRef")


def _headers(headers: Iterable[HeaderSource], *, field: str) -> dict[str, FileReference]:
    found = {
        header.name: _secret_key(header.secret_key_ref, field=f"{field}.headersFrom[{header.name}]")
        for header in headers
    }
    return {name: reference for name, reference in found.items() if reference is not None}


def _secret_key(
    reference: KeyReference | ApiKeyReference | AuthorityReference | None, *, field: str
) -> FileReference | None:
    if reference is None:
        return None
    return FileReference(kind=SECRET, name=reference.name, key=reference.key, field=field)
