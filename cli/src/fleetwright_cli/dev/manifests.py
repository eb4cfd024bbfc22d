"""Reads a folder of manifests into a fleet, and rejects objects that violate the CRD's schema.

Objects that only a cluster can run, such as a Deployment or a Service, are reported and left out. So are Secrets: a
local run takes the provider's key from the environment.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_api.spec.mcp_server import McpServerView, parse_mcp_server
from fleetwright_api.spec.skill import SkillView, parse_skill

Manifest = Mapping[str, Any]
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 63
_GROUP = "fleetwright.dev/v1alpha1"
_CRDS = {"Agent": "agent.yaml", "Skill": "skill.yaml", "McpServer": "mcpserver.yaml"}


class InvalidFleet(ValueError):  # noqa: N818 - reads as what the folder holds
    """A manifest is invalid; the message names the file, the object and the field."""


@dataclass(frozen=True, slots=True)
class LocalFleet:
    """Objects by name, all in one namespace."""

    agents: Mapping[str, AgentView]
    skills: Mapping[str, SkillView]
    servers: Mapping[str, McpServerView]
    skill_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    config_maps: Mapping[str, Manifest] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def read_fleet(folder: Path, *, namespace: str) -> LocalFleet:
    """Read every manifest in the folder itself, as `kubectl apply -f` would.

    Raises:
        InvalidFleet: A file or an object is invalid.
    """
    kinds: dict[str, dict[str, Manifest]] = {kind: {} for kind in (*_CRDS, "ConfigMap")}
    left_out: list[str] = []
    for place, manifest in _documents(folder):
        kind, name = manifest.get("kind", ""), manifest.get("metadata", {}).get("name", "")
        if kind in _CRDS:
            _validate(place, kind, manifest)
        if kind not in kinds:
            left_out.append(f"{kind} {name}")
        elif name in kinds[kind]:
            raise InvalidFleet(f"{place}: there is a second {kind} named {name!r}; give it another name")
        else:
            kinds[kind][name] = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
    if not kinds["Agent"]:
        raise InvalidFleet(f"{folder}: no Agent in any .yaml file of this folder")
    return LocalFleet(
        agents={name: parse_agent(manifest) for name, manifest in kinds["Agent"].items()},
        skills={name: parse_skill(manifest) for name, manifest in kinds["Skill"].items()},
        servers={name: parse_mcp_server(manifest) for name, manifest in kinds["McpServer"].items()},
        skill_labels={name: manifest["metadata"].get("labels", {}) for name, manifest in kinds["Skill"].items()},
        config_maps=kinds["ConfigMap"],
        left_out=tuple(left_out),
    )


def _documents(folder: Path) -> Iterator[tuple[str, Manifest]]:
    if not folder.is_dir():
        raise InvalidFleet(f"{folder}: is not a folder")
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            documents = list(yaml.safe_load_all(path.read_text()))
        except (OSError, UnicodeDecodeError):
            raise InvalidFleet(f"{path.name}: cannot be read as text") from None
        except yaml.YAMLError as error:
            raise InvalidFleet(f"{path.name}: not YAML: {error}") from None
        for index, document in enumerate(documents, 1):
            if document is None:
                continue
            if not _is_object(document):
                raise InvalidFleet(f"{path.name}, document {index}: apiVersion, kind and metadata.name are required")
            yield path.name, document


def _is_object(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return False
    name = document["metadata"].get("name")
    return isinstance(document.get("kind"), str) and isinstance(name, str) and bool(name)


def _validate(place: str, kind: str, manifest: Manifest) -> None:
    name = manifest["metadata"]["name"]
    if manifest.get("apiVersion") != _GROUP:
        raise InvalidFleet(f"{place}: {kind} {name}: apiVersion must be {_GROUP}")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise InvalidFleet(f"{place}: {kind} {name}: metadata.name: use lower-case letters, digits and '-', at most 63")
    error = jsonschema.exceptions.best_match(jsonschema.Draft7Validator(_schema(kind)).iter_errors(manifest))
    if error is not None:
        where = ".".join(str(part) for part in error.absolute_path) or "the object"
        raise InvalidFleet(f"{place}: {kind} {name}: {where}: {error.message}")


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    text = resources.files("fleetwright_cli").joinpath("crds", _CRDS[kind]).read_text()
    schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    closed: Mapping[str, Any] = _closed(schema)
    return closed


def _closed(schema: Any) -> Any:
    """Forbid unknown fields. The API server prunes them, but a user who writes one should see an error."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed
