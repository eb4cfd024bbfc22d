"""The pass of one Skill: its files are read, checked, and kept as an immutable snapshot that agents mount."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.desired.skill import skill_snapshot
from fleetwright_operator.errors import Missing
from fleetwright_operator.skill_document import InvalidSkill, SkillContent, key_to_path, read_skill
from fleetwright_operator.status import Outcome, custom_status
from fleetwright_operator.violation import Violation
from fleetwright_operator.writing import prune_history, write_children

Files = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPass:
    cluster: Cluster
    now: Callable[[], str]
    read_before: dict[tuple[str, str], tuple[str, int, Files]] = field(default_factory=dict)
    """By namespace and name of a source ConfigMap: its uid, resource version and files."""

    async def __call__(self, entry: Entry) -> bool:
        """Whether everything was written that should be."""
        outcome = await self._outcome(entry)
        used_by = len(self.cluster.cache.find("uses", *entry.id))
        status = custom_status(
            entry.facts["status"],
            Outcome(
                accepted=outcome.accepted,
                resolved=outcome.resolved,
                programmed=outcome.programmed,
                written=outcome.written,
                facts={**outcome.facts, "usedBy": used_by},
            ),
            generation=entry.generation,
            now=self.now(),
            rolls_out=False,
        )
        await self.cluster.write_status(entry, status)
        return outcome.programmed is None

    async def _outcome(self, entry: Entry) -> Outcome:
        files = await self._files(entry)
        if isinstance(files, Violation):
            return Outcome(resolved=[files])
        try:
            content = read_skill(entry.name, files)
        except InvalidSkill as invalid:
            return Outcome(accepted=[Violation("InvalidSkill", str(invalid))])
        snapshot = skill_snapshot(entry.facts, content)
        name = snapshot["metadata"]["name"]
        stopped = await write_children(self.cluster, [snapshot])
        if stopped is not None:
            return Outcome(resolved=(), programmed=stopped)
        await prune_history(self.cluster, entry, current=name)
        return Outcome(resolved=(), written=f"snapshot {name}", facts=_facts(content, name))

    async def _files(self, entry: Entry) -> Files | Violation:
        source = entry.facts["spec"]["source"]
        if "inline" in source:
            inline: Files = source["inline"]["files"]
            return inline
        name = source["configMap"]["name"]
        seen = self.cluster.cache.get("ConfigMapMetadata", entry.namespace, name)
        missing = Violation("ConfigMapNotFound", f"ConfigMap {name!r} does not exist in namespace {entry.namespace!r}")
        if seen is None or seen.deleting:
            self.read_before.pop((entry.namespace, name), None)
            return missing
        before = self.read_before.get((entry.namespace, name))
        if before is not None and before[0] == seen.uid and before[1] >= int(seen.resource_version):
            return before[2]
        try:
            body = await self.cluster.read("ConfigMap", entry.namespace, name)
        except Missing:
            return missing
        files = {key_to_path(key): text for key, text in body.get("data", {}).items()}
        metadata = body["metadata"]
        self.read_before[entry.namespace, name] = (metadata["uid"], int(metadata["resourceVersion"]), files)
        return files


def _facts(content: SkillContent, snapshot: str) -> dict[str, Any]:
    return {
        "name": content.name,
        "description": content.description,
        "digest": content.digest,
        "snapshot": snapshot,
    }
