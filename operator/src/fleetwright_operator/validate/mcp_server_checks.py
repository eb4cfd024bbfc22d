"""Checks of an McpServer's spec, and of what it refers to. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.tool_access import SecretKey
from fleetwright_operator.build.mcp_server import environment_sources, is_stdio, server_template
from fleetwright_operator.build.network.addresses import parse_address
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import address_problems, resolution_problems
from fleetwright_operator.validate.enum_checks import transport_is_known


def server_accepted(server: Mapping[str, Any], settings: Settings) -> Iterator[Violation]:
    yield from transport_is_known(server)
    spec = server["spec"]
    remote, workload = spec.get("remote"), spec.get("workload")
    if (remote is None) == (workload is None):
        yield Violation("SourceAmbiguous", "spec needs exactly one of remote and workload")
    elif remote is not None:
        yield from address_problems("spec.remote.url", remote["url"], server, settings)
    elif not (workload or {}).get("image"):
        yield Violation("ImageMissing", "spec.workload.image is empty; name the image that serves MCP")
    elif is_stdio(workload or {}) and not (workload or {}).get("command"):
        message = "spec.workload.command is empty; set the command of the Stdio server"
        yield Violation("CommandMissing", message)
    elif "podTemplate" in (workload or {}):
        template = server_template(server, settings=settings)
        for problem in template_problems(spec["workload"]["podTemplate"], template, settings):
            yield Violation("PodTemplate", f"spec.workload.{problem}")


def secrets_exist(keys: Iterable[SecretKey], secrets: Mapping[str, CachedObject | None]) -> Iterator[Violation]:
    """Check that every key exists, as far as the metadata shows."""
    for name, key in keys:
        secret = secrets.get(name)
        if secret is None:
            yield Violation("SecretNotFound", f"Secret {name!r} does not exist in its namespace")
        else:
            yield from _has_key(secret, key, field="spec.remote")


def environment_exists(
    server: Mapping[str, Any], objects: Mapping[tuple[str, str], CachedObject | None]
) -> Iterator[Violation]:
    """Check that the objects of the environment exist.

    Args: `objects` are by (kind, name), as `desired.mcpserver.environment_sources` names them.
    """
    for kind, name in environment_sources(server):
        if objects.get((kind, name)) is None:
            yield Violation(f"{kind}NotFound", f"spec.workload.envFrom names {kind} {name!r}, which does not exist")


def _has_key(secret: CachedObject, key: str, *, field: str) -> Iterator[Violation]:
    keys = secret.projection["keys"]
    if keys is not None and key not in keys:
        known = ", ".join(sorted(keys)) or "none"
        message = f"Secret {secret.name!r} has no key {key!r}; it has: {known}. Add it, or use another in {field}"
        yield Violation("SecretKeyNotFound", message)


def server_resolved(server: Mapping[str, Any], services: Services, settings: Settings) -> Iterator[Violation]:
    """Check that the address of an accepted server resolves, as far as the cluster shows."""
    if remote := server["spec"].get("remote"):
        space = server["metadata"]["namespace"]
        address = parse_address(remote["url"], namespace=space, settings=settings)
        yield from resolution_problems("spec.remote.url", address, services, settings)
