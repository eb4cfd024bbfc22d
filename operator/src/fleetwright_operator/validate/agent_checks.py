"""Checks of an Agent's own spec, as small pure functions, in the order in which a user would look for mistakes.

The checks repeat the validation rules of the CRD, because the CRD in a cluster may lack these rules. `reference_checks`
checks what an Agent refers to.
"""

from collections.abc import Iterator

from fleetwright_api import durations
from fleetwright_api.call_authorization import identity_of, peers_of, selects_namespaces
from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.auth_settings import declared_rotation
from fleetwright_operator.build.config.memory import max_audit_bytes, max_memory_bytes
from fleetwright_operator.build.config.models import (
    base_url,
    declared_models,
    is_priced,
    output_of,
    priced_models,
    window_of,
)
from fleetwright_operator.build.config.push import push_range_problems, receivers
from fleetwright_operator.build.config.telemetry import COLLECTOR, collector
from fleetwright_operator.build.deployment import agent_template
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.network_additions import range_problems
from fleetwright_operator.build.pod.file_references import instructions_file
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import (
    address_problems,
    is_local_to_reader,
    workspace_hosts_are_usable,
)
from fleetwright_operator.validate.argument_schema_checks import rules_can_be_kept
from fleetwright_operator.validate.check import Check
from fleetwright_operator.validate.extra_body_checks import requests_are_the_runtimes
from fleetwright_operator.validate.fleet_checks import sleepers_can_be_woken
from fleetwright_operator.validate.prompt_checks import own_prompts_can_begin
from fleetwright_operator.validate.tool_reference_checks import named_tools_are_its_own, plugins_are_told_apart


def instructions_are_written(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    if spec.instructions_from is not None:
        if spec.instructions is not None:
            message = "spec has both instructions and instructionsFrom: remove one of them"
            yield Violation("InstructionsAmbiguous", message)
        elif instructions_file(spec) is None:
            message = "spec.instructionsFrom needs exactly one of configMapKeyRef and secretKeyRef"
            yield Violation("InstructionsMissing", message)
    elif not (spec.instructions or "").strip():
        yield Violation("InstructionsMissing", "spec.instructions is empty; describe what the agent is for")


def models_are_usable(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, model in declared_models(observed.agent.spec):
        if not model.name:
            yield Violation("ModelMissing", f"{field}.name is empty; use the provider's name of the model")
            continue
        address = base_url(model, settings.catalog)
        yield from address_problems(f"{field}.baseURL", address, observed.agent, settings)
        if model.proxy_url is not None:
            # The CRD refuses this too, but it does not know the addresses of the catalog, nor older objects.
            if (model.api_key_secret_ref or model.headers_from) and address.startswith("http://"):
                message = (
                    f"{field}.baseURL is {address} and must be an https address if proxyURL and credentials are set"
                )
                yield Violation("InvalidAddress", f"{message}, because a proxy reads requests for an http address")
            yield from address_problems(f"{field}.proxyURL", model.proxy_url, observed.agent, settings)
        output = output_of(model, settings.catalog)
        window = window_of(model, settings.catalog, output=output)
        if output >= window:
            message = f"{field}.maxOutputTokens is {output} and must be below the context window of {window} tokens"
            yield Violation("ModelLimits", message)


def sub_agents_have_room(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    output = output_of(observed.agent.spec.model, settings.catalog)
    for name, model in ((each.name, each.model) for each in observed.agent.spec.sub_agents):
        window = None if model is None else window_of(model, settings.catalog, output=output)
        if window is not None and window <= output:
            field = f"spec.subAgents[{name}].model.contextWindow"
            message = f"{field} is {window} and must be above spec.model.maxOutputTokens, which is {output}"
            yield Violation("ModelLimits", message)


def learning_has_a_source(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    known = {each.name for each in spec.sub_agents}
    for name in (spec.memory.skills.sub_agents or ()) if spec.memory.skills else ():
        if name not in known:
            text = f"spec.memory.skills.subAgents names {name!r}, which is not in spec.subAgents"
            yield Violation("UnknownSubAgent", f"{text}: correct it, or remove it")


def budgets_can_be_kept(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    """Check that the agent can enforce its budgets.

    This requires persistent memory, and prices for budgets in dollars.
    """
    spec = observed.agent.spec
    for place, budget in ((f"spec.budgets[{each.period}]", each) for each in spec.budgets):
        if spec.memory.storage.ephemeral:
            text = f"{place} needs memory that outlives the pod: remove spec.memory.storage.ephemeral"
            yield Violation("BudgetNeedsMemory", text)
        for field, model in priced_models(spec):
            if budget.usd is not None and not is_priced(model, settings.catalog):
                text = f"{place}.usd needs the price of {model.name!r}: set {field}.price, or use tokens"
                yield Violation("BudgetUnpriced", text)


def trail_leaves_room(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    """Check the size of the audit trail.

    Its two files are in the memory volume, and evicting conversations does not shrink them.
    """
    spec = observed.agent.spec
    audit, most = spec.audit, max_audit_bytes(spec)
    if audit.mode != "Off" and (audit.max_bytes or 0) > most:
        derived = "" if spec.memory.max_bytes is not None else " (four fifths of spec.memory.storage.size)"
        yield Violation(
            "AuditTooLarge",
            f"spec.audit.maxBytes is {audit.max_bytes}, and two files of it are more than half of"
            f" spec.memory.maxBytes, which is {max_memory_bytes(spec)}{derived}: lower spec.audit.maxBytes"
            f" to {most} or less, or raise spec.memory.maxBytes and spec.memory.storage.size",
        )


def durations_are_durations(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    spec = observed.agent.spec
    summary, prune, archive = spec.compaction.summary, spec.compaction.prune, spec.compaction.archive
    curation = spec.memory.skills.curation if spec.memory.skills else None
    places = {
        **{f"{field}.timeout": model.timeout for field, model in declared_models(spec)},
        **{f"spec.subAgents[{each.name}].timeout": each.timeout for each in spec.sub_agents},
        "spec.fleet.idleTimeout": spec.fleet.idle_timeout,
        "spec.approvals.expiry": spec.approvals.expiry,
        "spec.approvals.escalateAfter": spec.approvals.escalate_after,
        "spec.compaction.summary.timeout": summary.timeout if summary else None,
        "spec.compaction.prune.idleAfter": prune.idle_after if prune else None,
        "spec.compaction.archive.retain": archive.retain if archive else None,
        "spec.memory.taskRetention": spec.memory.task_retention,
        "spec.memory.conversationRetention": spec.memory.conversation_retention,
        "spec.memory.skills.curation.interval": curation.interval if curation else None,
        "spec.memory.skills.curation.halfLife": curation.half_life if curation else None,
        **{
            f"spec.enforcement.limits[{number}].window": limit.window
            for number, limit in enumerate(spec.enforcement.limits or ())
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
    for problem in range_problems(observed.agent.spec, settings):
        yield Violation("InvalidRange", problem)
    patch = observed.agent.spec.pod_template
    if patch is None:
        return
    template = agent_template(
        owner_of(observed.agent),
        observed.agent.spec,
        revision="",
        snapshots={},
        servers={},
        peers=observed.existing_peers,
        settings=settings,
    )
    for problem in template_problems(patch, template, settings):
        yield Violation("PodTemplate", f"spec.{problem}")


def receivers_can_be_reached(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, url in receivers(observed.agent.spec):
        yield from address_problems(field, url, observed.agent, settings)
    for problem in push_range_problems(observed.agent.spec, settings):
        yield Violation("InvalidRange", problem)


def collector_can_be_reached(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    if url := collector(observed.agent.spec):
        yield from address_problems(COLLECTOR, url, observed.agent, settings)


def public_address_is_public(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    url = observed.agent.spec.a2a.public_url
    if url and is_local_to_reader(url):
        message = f"spec.a2a.publicURL: {url} points at the reader's own machine; use the address of the gateway"
        yield Violation("InvalidAddress", message)


def rotation_is_possible(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    try:
        declared_rotation(observed.agent.spec.auth, settings.token_rotation)
    except ValueError as error:
        yield Violation("InvalidDuration", str(error))


def peers_are_others(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    if identity_of(observed.agent) in peers_of(observed.agent):
        yield Violation("PeerIsSelf", "spec.peers names the agent itself: remove that entry")


def results_are_objects(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for number, skill in enumerate(observed.agent.spec.a2a.skills):
        if (skill.output_schema or {}).get("type", "object") != "object":
            place = f"spec.a2a.skills[{number}].outputSchema.type"
            yield Violation("OutputSchema", f"{place} must be object; wrap the value in a property of an object")


ACCEPTED: tuple[Check, ...] = (
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
    sleepers_can_be_woken,
    own_prompts_can_begin,
    workspace_hosts_are_usable,
)
