"""The snapshot of one Skill: immutable, named by its content, so that a rollout never sees half an edit."""

from collections.abc import Mapping
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.desired.manifest import Manifest, manifest, owner_of
from fleetwright_operator.skill_document import SkillContent, path_to_key


def skill_snapshot(skill: Mapping[str, Any], content: SkillContent) -> Manifest:
    owner = owner_of(skill)
    head = manifest(
        "v1",
        "ConfigMap",
        name=names.skill_snapshot(owner.name, content.digest),
        owner=owner,
        annotations={names.SKILL_DIGEST_ANNOTATION: content.digest},
    )
    data = {path_to_key(path): text for path, text in sorted(content.files.items())}
    return {**head, "immutable": True, "data": data}
