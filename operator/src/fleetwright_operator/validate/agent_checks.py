"""Checks of an Agent's own spec, as small pure functions, in the order in which a user would look for mistakes.

They repeat the validation rules of the CRD, because a cluster can lack those. `reference_checks` checks what an Agent
refers to.
"""

from collections.abc import Iterator

from fleetwright_api import durations
from fleetwright_api.call_authorization import identity_of, peers_of, selects_namespaces
from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.auth_settings import declared_rotation, declared_skills
from fleetwright_operator.build.config.memory import max_audit_bytes, max_memory_bytes
from fleetwright_operator.build.config.models import (
    base_url,
    declared_models,
    output_of,
    price_of,
    priced_models,
    window_of,
)
from fleetwright_operator.build.config.push import push_range_problems, receivers
from fleetwright_operator.build.config.telemetry import COLLECTOR, collector
from fleetwright_operator.build.deployment import agent_template
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.network_additions import range_problems
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.build.pod.memory_volume import is_ephemeral
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.observe.observation import ObservedAgent
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import address_problems, is_local_to_reader
from fleetwright_operator.validate.argument_schema_checks import rules_can_be_kept
from fleetwright_operator.validate.check import Check
from fleetwright_operator.validate.enum_checks import words_are_known
from fleetwright_operator.validate.extra_body_checks import requests_are_the_runtimes
from fleetwright_operator.validate.tool_reference_checks import named_tools_are_its_own, plugins_are_told_apart


def instructions_are_written(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent["spec"]
    if "instructionsFrom" in spec:
        if "instructions" in spec:
            message = "spec has both instructions and instructionsFrom: remove one of them"
            yield Violation("InstructionsAmbiguous", message)
        elif instructions_file(observed.agent) is None:
            message = "spec.instructionsFrom needs exactly one of configMapKeyRef and secretKeyRef"
            yield Violation("InstructionsMissing", message)
    elif not spec.get("instructions", "").strip():
        yield Violation("InstructionsMissing", "spec.instructions is empty; describe what the agent is for")


def models_are_usable(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, model in declared_models(observed.agent["spec"]):
        if not model.get("name"):
            yield Violation("ModelMissing", f"{field}.name is empty; use the provider's name of the model")
            continue
        yield from address_problems(f"{field}.baseURL", base_url(model, settings.catalog), observed.agent, settings)
        if "proxyURL" in model:
            yield from address_problems(f"{field}.proxyURL", model["proxyURL"], observed.agent, settings)
        output = output_of(model, settings.catalog)
        window = window_of(model, settings.catalog, output=output)
        if output >= window:
            message = f"{field}.maxOutputTokens is {output} and must be below the context window of {window} tokens"
            yield Violation("ModelLimits", message)


def sub_agents_have_room(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    own = observed.agent["spec"].get("model", {})
    output = output_of(own, settings.catalog)
    for each in (each for each in observed.agent["spec"].get("subAgents", ()) if "model" in each):
        window = window_of(each["model"], settings.catalog, output=output)
        if window <= output:
            field = f"spec.subAgents[{each['name']}].model.contextWindow"
            message = f"{field} is {window} and must be above spec.model.maxOutputTokens, which is {output}"
            yield Violation("ModelLimits", message)


def learning_has_a_source(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent["spec"]
    known = {each["name"] for each in spec.get("subAgents", ())}
    for name in spec.get("memory", {}).get("skills", {}).get("subAgents", ()):
        if name not in known:
            text = f"spec.memory.skills.subAgents names {name!r}, which is not in spec.subAgents"
            yield Violation("UnknownSubAgent", f"{text}: correct it, or remove it")


def budgets_can_be_kept(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    """The agent adds up its spending in its memory, by the prices of its models."""
    spec = observed.agent["spec"]
    for place, budget in ((f"spec.budgets[{each['period']}]", each) for each in spec.get("budgets", ())):
        if is_ephemeral(observed.agent):
            text = f"{place} needs memory that outlives the pod: remove spec.memory.storage.ephemeral"
            yield Violation("BudgetNeedsMemory", text)
        for field, model in priced_models(spec):
            if "usd" in budget and price_of(model, settings.catalog) is None:
                text = f"{place}.usd needs the price of {model['name']!r}: set {field}.price, or use tokens"
                yield Violation("BudgetUnpriced", text)


def trail_leaves_room(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    """The audit trail takes two files of the memory volume, and cleanup of conversations never shrinks it."""
    spec = observed.agent["spec"]
    audit, most = spec.get("audit", {}), max_audit_bytes(observed.agent)
    if audit.get("mode") != "Off" and audit.get("maxBytes", 0) > most:
        derived = "" if "maxBytes" in spec.get("memory", {}) else " (four fifths of spec.memory.storage.size)"
        yield Violation(
            "AuditTooLarge",
            f"spec.audit.maxBytes is {audit['maxBytes']}, and two files of it are more than half of"
            f" spec.memory.maxBytes, which is {max_memory_bytes(observed.agent)}{derived}: lower spec.audit.maxBytes"
            f" to {most} or less, or raise spec.memory.maxBytes and spec.memory.storage.size",
        )


def durations_are_durations(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent["spec"]
    compaction = spec.get("compaction", {})
    curation = spec.get("memory", {}).get("skills", {}).get("curation", {})
    places = {
        **{f"{field}.timeout": model.get("timeout") for field, model in declared_models(spec)},
        **{f"spec.subAgents[{each['name']}].timeout": each.get("timeout") for each in spec.get("subAgents", ())},
        "spec.approvals.expiry": spec.get("approvals", {}).get("expiry"),
        "spec.compaction.summary.timeout": compaction.get("summary", {}).get("timeout"),
        "spec.compaction.prune.idleAfter": compaction.get("prune", {}).get("idleAfter"),
        "spec.compaction.archive.retain": compaction.get("archive", {}).get("retain"),
        "spec.memory.taskRetention": spec.get("memory", {}).get("taskRetention"),
        "spec.memory.conversationRetention": spec.get("memory", {}).get("conversationRetention"),
        **{f"spec.memory.skills.curation.{field}": curation.get(field) for field in ("interval", "halfLife")},
        **{
            f"spec.enforcement.limits[{number}].window": limit.get("window")
            for number, limit in enumerate(spec.get("enforcement", {}).get("limits", ()))
        },
    }
    for place, text in places.items():
        try:
            durations.seconds(text or "1s")
        except ValueError as error:
            yield Violation("InvalidDuration", f"{place}: {error}")


def callers_can_be_judged(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    if settings.namespaces and selects_namespaces(observed.agent):
        message = (
            "spec.allowedCallers.namespaces: this installation watches a list of namespaces and cannot read their "
            "labels; name the agents, or use from: Same or All"
        )
        yield Violation("NamespaceSelector", message)


def additions_are_harmless(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for problem in range_problems(observed.agent, settings):
        yield Violation("InvalidRange", problem)
    if "podTemplate" not in observed.agent["spec"]:
        return
    template = agent_template(
        owner_of(observed.agent), observed.agent, revision="", snapshots={}, servers={}, settings=settings
    )
    for problem in template_problems(observed.agent["spec"]["podTemplate"], template, settings):
        yield Violation("PodTemplate", f"spec.{problem}")


def receivers_can_be_reached(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, url in receivers(observed.agent):
        yield from address_problems(field, url, observed.agent, settings)
    for problem in push_range_problems(observed.agent, settings):
        yield Violation("InvalidRange", problem)


def collector_can_be_reached(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    if url := collector(observed.agent):
        yield from address_problems(COLLECTOR, url, observed.agent, settings)


def public_address_is_public(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    url = observed.agent["spec"].get("a2a", {}).get("publicURL", "")
    if url and is_local_to_reader(url):
        message = f"spec.a2a.publicURL: {url} points at the reader's own machine; use the address of the gateway"
        yield Violation("InvalidAddress", message)


def rotation_is_possible(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    try:
        declared_rotation(observed.agent["spec"].get("auth", {}), settings.token_rotation)
    except ValueError as error:
        yield Violation("InvalidDuration", str(error))


def peers_are_others(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    if identity_of(observed.agent) in peers_of(observed.agent):
        yield Violation("PeerIsSelf", "spec.peers names the agent itself: remove that entry")


def results_are_objects(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for number, skill in enumerate(declared_skills(observed.agent["spec"])):
        if skill.get("outputSchema", {}).get("type", "object") != "object":
            place = f"spec.a2a.skills[{number}].outputSchema.type"
            yield Violation("OutputSchema", f"{place} must be object; wrap the value in a property of an object")


ACCEPTED: tuple[Check, ...] = (
    words_are_known,
    instructions_are_written,
    models_are_usable,
    sub_agents_have_room,
    learning_has_a_source,
    trail_leaves_room,
    durations_are_durations,
    callers_can_be_judged,
    additions_are_harmless,
    receivers_can_be_reached,
    collector_can_be_reached,
    public_address_is_public,
    rotation_is_possible,
    peers_are_others,
    named_tools_are_its_own,
    plugins_are_told_apart,
    budgets_can_be_kept,
    results_are_objects,
    rules_can_be_kept,
    requests_are_the_runtimes,
)
