"""The snapshot of one Skill: immutable and named by its content, so that a rollout never sees a partial edit.

The Skill owns the snapshot, and the agents that mount it are additional owners, because agents outlive a deleted Skill.
"""

from collections.abc import Sequence

from fleetwright_api import names
from fleetwright_api.skill_document import SkillContent, path_to_key
from fleetwright_api.spec.skill import SkillView
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of


def skill_snapshot(skill: SkillView, content: SkillContent, *, holders: Sequence[Owner] = ()) -> Manifest:
    owner = owner_of(skill)
    head = manifest(
        "v1",
        "ConfigMap",
        name=names.skill_snapshot(owner.name, content.digest),
        owner=owner,
        annotations={names.SKILL_DIGEST_ANNOTATION: content.digest},
    )
    head["metadata"]["ownerReferences"] += [holder.hold for holder in sorted(holders, key=lambda holder: holder.name)]
    data = {path_to_key(path): text for path, text in sorted(content.files.items())}
    return {**head, "immutable": True, "data": data}
