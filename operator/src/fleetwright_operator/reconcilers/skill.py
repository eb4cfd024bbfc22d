"""The reconciler of a Skill.

It reads and checks inline files and the files of a ConfigMap, and writes them as an immutable snapshot that agents
mount. For files in git or in an image, it runs a probe that checks them. Agents fetch such files themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api import names
from fleetwright_api.skill_document import InvalidSkill, SkillContent, files_of, read_skill
from fleetwright_api.spec.decoder import MALFORMED
from fleetwright_api.spec.skill import SkillSourceSpec
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import NotFoundError
from fleetwright_operator.apply.child_writer import is_refusal, prune_history, write_children
from fleetwright_operator.build.config.skill_permissions import declared_permissions, permission_problems
from fleetwright_operator.build.network.addresses import destination
from fleetwright_operator.build.pod.git_access import git_urls
from fleetwright_operator.build.pod.skill_source import git_address, remote_source, skill_probe, source_secrets
from fleetwright_operator.build.skill_snapshot import skill_snapshot
from fleetwright_operator.kinds.views import skill_of
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.namespace_limits import observe_limits
from fleetwright_operator.observe.references import observe_services, observe_source_secrets
from fleetwright_operator.observe.watch_index import holders_of_snapshot, users_of_skill
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.rollout.probe_result import ProbePending
from fleetwright_operator.rollout.probe_runner import ProbeRunner
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.skill_probe import (
    failure_reason,
    has_answer,
    has_failed,
    is_final,
    outcomes_of_probe,
    status_of_probe,
    with_pull_failure,
)
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.write_loop import write_loop
from fleetwright_operator.validate.address_checks import address_problems

Files = Mapping[str, str]
_NO_SOURCE = "spec.source needs exactly one of inline, configMap, git and image"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillReconciler:
    cluster: Cluster
    settings: Settings
    now: Callable[[], str]
    schedule: ProbeSchedule
    probes: ProbeRunner
    read_before: dict[Key, tuple[str, int, Files]] = field(default_factory=dict)
    """By Skill: uid, resource version and files of its source ConfigMap."""

    def forget(self, key: Key) -> None:
        self._forget_files(key)
        self.schedule.forget(key)
        self.probes.forget(key)

    def _forget_files(self, key: Key) -> None:
        """Drop the kept files, which may be large."""
        self.read_before.pop(key, None)

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        outcome, probing = await self._outcome(entry)
        used_by = len(users_of_skill(self.cluster.cache, entry))
        status = custom_status(
            entry.projection["status"],
            StageOutcomes(
                accepted=outcome.accepted,
                resolved=outcome.resolved,
                programmed=outcome.programmed,
                written=outcome.written,
                facts={**outcome.facts, "usedBy": used_by},
                write_loop=write_loop(self.cluster.list_delayed_writes(entry)),
            ),
            generation=entry.generation,
            now=self.now(),
            rolls_out=False,
            installation=self.settings.installation,
        )
        await self.cluster.write_status(entry, status)
        # The status must be written before the probe is deleted: until then, the result exists only in the probe's pod.
        if outcome.facts.get("look"):
            self.schedule.record_result(entry.id, failure=failure_reason(status))
        await self.probes.finish_probes(entry, keep=probing)
        stopped = outcome.programmed
        is_retried = bool(remote_source(skill_of(entry).spec.source)) and has_failed(status) and not is_final(status)
        return ReconcileResult(
            settled=stopped is None and not is_retried,
            refused=is_refusal(stopped),
            requeue_after=self.schedule.seconds_until_due(entry.id)
            if is_retried and not probing
            else self.probes.requeue_after(entry),
        )

    async def _outcome(self, entry: CachedObject) -> tuple[StageOutcomes, str]:
        """Return the outcome, and the name of the probe that runs; empty if none does."""
        skill = skill_of(entry)
        source, permissions = skill.spec.source, skill.spec.permissions
        if source.config_map is None:
            self._forget_files(entry.id)
        if skill.problems:
            return StageOutcomes(accepted=skill.problems), ""
        if source == SkillSourceSpec():
            return StageOutcomes(accepted=[Violation(MALFORMED, _NO_SOURCE)]), ""
        if problems := list(permission_problems(permissions, namespace=entry.namespace, settings=self.settings)):
            return StageOutcomes(accepted=[Violation("InvalidPermission", problem) for problem in problems]), ""
        if remote := remote_source(source):
            return await self._probe(entry, remote)
        return await self._write_snapshot(entry), ""

    async def _write_snapshot(self, entry: CachedObject) -> StageOutcomes:
        """Write the files of the spec or of a ConfigMap as an immutable ConfigMap."""
        skill = skill_of(entry)
        permissions = skill.spec.permissions
        try:
            files = await self._files(entry)
            if isinstance(files, Violation):
                return StageOutcomes(resolved=[files])
            content = read_skill(entry.name, files, permissions=permissions)
        except InvalidSkill as invalid:
            return StageOutcomes(accepted=[Violation("InvalidSkill", str(invalid))])
        name = names.skill_snapshot(entry.name, content.digest)
        holders = holders_of_snapshot(self.cluster.cache, entry, name)
        stopped = await write_children(self.cluster, [skill_snapshot(skill, content, holders=holders)])
        if stopped is not None:
            return StageOutcomes(resolved=(), programmed=stopped)
        await prune_history(self.cluster, entry, current=name)
        return StageOutcomes(resolved=(), written=f"snapshot {name}", facts=_facts(content, name))

    async def _probe(self, entry: CachedObject, source: SkillSourceSpec) -> tuple[StageOutcomes, str]:
        """Start a probe if the result is unknown, or if the last probe failed and a retry is due.

        Return the outcome, and the name of the probe while it runs.
        """
        skill, cache = skill_of(entry), self.cluster.cache
        git = skill.spec.source.git
        places = [(f"spec.source.git.{name}", url) for name, url in git_urls(git)] if git else []
        problems = [problem for place in places for problem in address_problems(*place, skill, self.settings)]
        if problems:
            return StageOutcomes(accepted=problems), ""
        address = git_address(skill, self.settings)
        services = observe_services(cache, [address] if address else [])
        found = destination(address, services, self.settings) if address else None
        if git and isinstance(found, str):
            message = f"spec.source.git.{git.destination_field}: {found}"
            return StageOutcomes(resolved=[Violation("ServiceNotFound", message)]), ""
        about = observe_source_secrets(cache, entry.namespace, source_secrets(skill.spec.source))
        if isinstance(about, Violation):
            return StageOutcomes(resolved=[about]), ""
        probe = skill_probe(
            skill,
            about=about,
            services=services,
            limits=observe_limits(cache, entry.namespace),
            settings=self.settings,
        )
        is_repeated = has_failed(skill.status) and not is_final(skill.status)
        is_due = is_repeated and self.schedule.is_due(entry.id, failed=True)
        if has_answer(skill.status, probe.question) and not is_due:
            return outcomes_of_probe(skill, probe.question, {}, None), ""
        answer = with_pull_failure(source, await self.probes.run_probe(probe))
        facts = status_of_probe(skill, source, probe.question, answer)
        pending = answer if isinstance(answer, ProbePending) else None
        return outcomes_of_probe(skill, probe.question, facts, pending), probe.name if pending else ""

    async def _files(self, entry: CachedObject) -> Files | Violation:
        """Return the files, or a violation if their source does not exist. Raises InvalidSkill."""
        source = skill_of(entry).spec.source
        if source.inline is not None or source.config_map is None:
            return source.inline.files if source.inline else {}
        name = source.config_map.name
        seen = self.cluster.cache.get("ConfigMapMetadata", entry.namespace, name)
        missing = Violation("ConfigMapNotFound", f"ConfigMap {name!r} does not exist in namespace {entry.namespace!r}")
        if seen is None or seen.deleting:
            self._forget_files(entry.id)
            return missing
        before = self.read_before.get(entry.id)
        if before is not None and before[0] == seen.uid and before[1] >= int(seen.resource_version):
            return before[2]
        try:
            body = await self.cluster.read("ConfigMap", entry.namespace, name)
        except NotFoundError:
            return missing
        files = files_of(body)
        metadata = body["metadata"]
        self.read_before[entry.id] = (metadata["uid"], int(metadata["resourceVersion"]), files)
        return files


def _facts(content: SkillContent, snapshot: str) -> dict[str, Any]:
    return {
        "name": content.name,
        "description": content.description,
        "digest": content.digest,
        "snapshot": snapshot,
        "source": None,
        "look": None,
        "permissions": declared_permissions(content.needs.permissions),
    }
