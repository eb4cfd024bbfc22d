"""Checks of an McpServer's spec, and of the objects that it refers to. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from fleetwright_api.spec.mcp_server import McpServerView, WorkloadSpec
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.tool_access import SecretKey
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.mcp_server import environment_sources, is_stdio, server_template
from fleetwright_operator.build.network.addresses import parse_address
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.build.pod.file_mounts import SECRET
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import address_problems, resolution_problems


def server_accepted(server: McpServerView, settings: Settings) -> Iterator[Violation]:
    if server.problems:
        yield from server.problems
        return
    remote, workload = server.spec.remote, server.spec.workload
    if (remote is None) == (workload is None):
        yield Violation("SourceAmbiguous", "spec needs exactly one of remote and workload")
    if remote is not None and workload is None:
        yield from address_problems("spec.remote.url", remote.url, server, settings)
        if remote.proxy_url is not None:
            yield from address_problems("spec.remote.proxyURL", remote.proxy_url, server, settings)
    if workload is not None and remote is None:
        yield from _workload_problems(server, workload, settings)


def _workload_problems(server: McpServerView, workload: WorkloadSpec, settings: Settings) -> Iterator[Violation]:
    if not workload.image:
        yield Violation("ImageMissing", "spec.workload.image is empty; name the image that serves MCP")
    elif is_stdio(workload) and not workload.command:
        message = "spec.workload.command is empty; set the command of the Stdio server"
        yield Violation("CommandMissing", message)
    elif workload.pod_template is not None:
        template = server_template(owner_of(server), workload, settings=settings)
        for problem in template_problems(workload.pod_template, template, settings):
            yield Violation("PodTemplate", f"spec.workload.{problem}")


def secrets_exist(keys: Iterable[SecretKey], secrets: Mapping[str, CachedObject | None]) -> Iterator[Violation]:
    """Check that every key exists, as far as the Secrets' metadata shows."""
    for name, key in keys:
        secret = secrets.get(name)
        if secret is None:
            yield Violation("SecretNotFound", f"Secret {name!r} does not exist in its namespace")
        else:
            yield from _has_key(secret, key, field="spec.remote")


def environment_exists(
    server: McpServerView, objects: Mapping[tuple[str, str], CachedObject | None]
) -> Iterator[Violation]:
    """Check that the objects of the environment exist.

    Args: `objects` are by (kind, name), as `environment_sources` names them.
    """
    for kind, name in environment_sources(server.spec):
        if objects.get((kind, name)) is None:
            message = f"spec.workload.envFrom names {kind} {name!r}, which does not exist"
            yield Violation("SecretNotFound" if kind == SECRET else "ConfigMapNotFound", message)


def _has_key(secret: CachedObject, key: str, *, field: str) -> Iterator[Violation]:
    keys = secret.projection["keys"]
    if keys is not None and key not in keys:
        known = ", ".join(sorted(keys)) or "none"
        message = f"Secret {secret.name!r} has no key {key!r}; it has: {known}. Add it, or use another in {field}"
        yield Violation("SecretKeyNotFound", message)


def server_resolved(server: McpServerView, services: Services, settings: Settings) -> Iterator[Violation]:
    """Check that the address of an accepted server, or of its proxy, resolves, as far as the cached Services show."""
    if remote := server.spec.remote:
        address = parse_address(remote.destination, namespace=server.namespace, settings=settings)
        yield from resolution_problems(f"spec.remote.{remote.destination_field}", address, services, settings)
