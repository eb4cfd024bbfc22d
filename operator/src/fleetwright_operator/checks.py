"""What can be wrong with an object, one small pure function each, in the order in which a person would look.

`ACCEPTED` needs the object alone: it holds again what the CRD's rules say, because rules can be absent.
`RESOLVED` needs what the object refers to.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fleetwright_operator import durations
from fleetwright_operator.desired.addresses import Address, UnusableAddress, destination, parse_address
from fleetwright_operator.desired.config import api_key_reference, model_base_url
from fleetwright_operator.desired.egress import Services, named_addresses
from fleetwright_operator.edges import allows, peer_names
from fleetwright_operator.observe import ObservedAgent
from fleetwright_operator.settings import Settings
from fleetwright_operator.violation import Violation

Check = Callable[[ObservedAgent, Settings], Iterator[Violation]]


def instructions_are_written(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    if not seen.agent["spec"].get("instructions", "").strip():
        yield Violation("InstructionsMissing", "spec.instructions is empty: say what the agent is for")


def model_is_usable(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    model = seen.agent["spec"].get("model", {})
    if not model.get("name"):
        yield Violation("ModelMissing", "spec.model.name is empty: name the model as its provider does")
        return
    yield from _usable("spec.model.baseURL", model_base_url(seen.agent, settings.catalog), seen.agent, settings)
    defaults = settings.catalog.lookup(model["name"])
    window = model.get("contextWindow", defaults.context_window)
    output = model.get("maxOutputTokens", defaults.max_output_tokens)
    if output >= window:
        message = f"spec.model.maxOutputTokens is {output} and must be below the context window of {window} tokens"
        yield Violation("ModelLimits", message)


def durations_are_durations(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = seen.agent["spec"]
    places = {
        "spec.model.timeout": spec.get("model", {}).get("timeout"),
        "spec.compaction.summary.timeout": spec.get("compaction", {}).get("summary", {}).get("timeout"),
    }
    for place, text in places.items():
        try:
            durations.seconds(text or "1s")
        except ValueError as error:
            yield Violation("InvalidDuration", f"{place}: {error}")


def peers_are_others(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    if seen.entry.name in peer_names(seen.agent):
        yield Violation("PeerIsSelf", "spec.peers names the agent itself: remove that entry")


def skills_are_ready(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for name, skill in seen.skills.items():
        if skill is None:
            yield Violation("SkillNotFound", f"Skill {name!r} does not exist in namespace {seen.entry.namespace!r}")
            continue
        ready = _ready(skill.facts)
        if ready.get("observedGeneration") == skill.generation and ready.get("status") != "True":
            yield Violation("SkillNotReady", f"Skill {name!r} is not ready: {ready['message']}")
        elif name not in seen.snapshots:
            yield Violation("SkillPending", f"Skill {name!r} is still being read")


def servers_are_usable(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for name, server in seen.servers.items():
        if server is None:
            message = f"McpServer {name!r} does not exist in namespace {seen.entry.namespace!r}"
            yield Violation("McpServerNotFound", message)
            continue
        for violation in server_accepted(server, settings):
            yield Violation("McpServerInvalid", f"McpServer {name!r}: {violation.message}")


def peers_exist_and_agree(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for name, peer in seen.peers.items():
        if peer is None:
            yield Violation("PeerNotFound", f"Agent {name!r} does not exist in namespace {seen.entry.namespace!r}")
        elif not allows(peer, seen.entry.name):
            message = f"Agent {name!r} does not allow {seen.entry.name!r}: add it to allowedCallers.agents there"
            yield Violation("PeerNotAllowed", message)


def key_exists(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    reference = api_key_reference(seen.agent)
    if reference is None:
        return
    secret, key = reference
    if seen.key_secret is None or seen.key_secret.deleting:
        message = f"Secret {secret!r} with the model's key does not exist in namespace {seen.entry.namespace!r}"
        yield Violation("SecretNotFound", message)
        return
    keys = seen.key_secret.facts["keys"]
    if keys is not None and key not in keys:
        known = ", ".join(sorted(keys)) or "none"
        message = f"Secret {secret!r} has no key {key!r}; it has: {known}. Add it, or name another in apiKeySecretRef"
        yield Violation("SecretKeyNotFound", message)


def addresses_resolve(seen: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    servers = {
        name: server for name, server in seen.servers.items() if server and not list(server_accepted(server, settings))
    }
    for field, address in named_addresses(seen.agent, servers, settings):
        yield from _resolved(field, address, seen.services, settings)


ACCEPTED: tuple[Check, ...] = (
    instructions_are_written,
    model_is_usable,
    durations_are_durations,
    peers_are_others,
)
RESOLVED: tuple[Check, ...] = (
    key_exists,
    skills_are_ready,
    servers_are_usable,
    peers_exist_and_agree,
    addresses_resolve,
)


def violations(checks: tuple[Check, ...], seen: ObservedAgent, settings: Settings) -> list[Violation]:
    return [violation for check in checks for violation in check(seen, settings)]


def server_accepted(server: Mapping[str, Any], settings: Settings) -> Iterator[Violation]:
    spec = server["spec"]
    remote, workload = spec.get("remote"), spec.get("workload")
    if (remote is None) == (workload is None):
        yield Violation("SourceAmbiguous", "spec needs exactly one of remote and workload")
    elif remote is not None:
        yield from _usable("spec.remote.url", remote["url"], server, settings)
    elif not (workload or {}).get("image"):
        yield Violation("ImageMissing", "spec.workload.image is empty: name the image that serves MCP")


def server_resolved(server: Mapping[str, Any], services: Services, settings: Settings) -> Iterator[Violation]:
    """For a server that is accepted: whether its address leads anywhere, as far as the cluster can tell."""
    if remote := server["spec"].get("remote"):
        space = server["metadata"]["namespace"]
        address = parse_address(remote["url"], namespace=space, cluster_domain=settings.cluster_domain)
        yield from _resolved("spec.remote.url", address, services, settings)


def _usable(field: str, url: str, holder: Mapping[str, Any], settings: Settings) -> Iterator[Violation]:
    try:
        parse_address(url, namespace=holder["metadata"]["namespace"], cluster_domain=settings.cluster_domain)
    except UnusableAddress as error:
        yield Violation("InvalidAddress", f"{field}: {error}")


def _resolved(field: str, address: Address, services: Services, settings: Settings) -> Iterator[Violation]:
    found = destination(address, services)
    if not isinstance(found, str):
        return
    watched = settings.namespaces
    if address.service and watched and address.service[0] not in watched and address.service not in services:
        found = f"namespace {address.service[0]!r} is not among those this installation looks at"
    yield Violation("ServiceNotFound", f"{field} names {address.host}: {found}")


def _ready(custom: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = custom.get("status", {}).get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})
