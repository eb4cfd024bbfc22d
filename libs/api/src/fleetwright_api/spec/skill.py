"""The typed view of a Skill, with the permissions and the source that its last reconcile accepted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fleetwright_api import names
from fleetwright_api.spec.custom_object import CustomObject, identity
from fleetwright_api.spec.decoder import decode, shared
from fleetwright_api.spec.git import GitServerSpec
from fleetwright_api.spec.network import IpBlock
from fleetwright_api.spec.references import ObjectReference
from fleetwright_api.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineSource:
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepositorySource(GitServerSpec):
    """A folder of one commit; the root folder if `path` is unset."""

    commit: str
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OciImageSource:
    reference: str
    pull_secret: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSourceSpec:
    """The source of a Skill's files. A valid spec has exactly one of these fields."""

    inline: InlineSource | None = None
    config_map: ObjectReference | None = None
    git: GitRepositorySource | None = None
    image: OciImageSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededEgressSpec:
    """A host or an address range that agents with this skill must be able to reach on these TCP ports."""

    host: str | None = None
    ip_block: IpBlock | None = None
    ports: tuple[int, ...]
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsSpec:
    """The permissions that a skill needs. Tools are written as `<server>/<tool>`."""

    tools: tuple[str, ...] = ()
    egress: tuple[NeededEgressSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillNeeds:
    """The permissions that a skill gives to its agents, and the repository from which their pods fetch its files."""

    permissions: PermissionsSpec = PermissionsSpec()
    fetched_from: GitServerSpec | None = None
    """The git repository; None if pods do not fetch the files from git."""


NO_NEEDS: Final = SkillNeeds()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSpec:
    source: SkillSourceSpec
    permissions: PermissionsSpec = PermissionsSpec()


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillView(CustomObject):
    kind: ClassVar[str] = names.SKILL
    spec: SkillSpec
    accepted_permissions: PermissionsSpec = PermissionsSpec()
    """The permissions in `status`, which belong to the files that agents currently mount."""
    accepted_source: SkillSourceSpec | None = None
    """The source in `status`, from which agents get the files; None if they mount a snapshot."""

    @property
    def needs(self) -> SkillNeeds:
        """The permissions that the Skill's last reconcile accepted, with the origin of its files."""
        git = self.accepted_source.git if self.accepted_source else None
        return SkillNeeds(permissions=self.accepted_permissions, fetched_from=git)


def parse_skill(body: Mapping[str, Any]) -> SkillView:
    """Return the view of a Skill. Errors in its spec are listed in `problems`."""
    problems: list[Violation] = []
    spec = decode(SkillSpec, body.get("spec"), "spec", problems)
    status = shared(body.get("status") or {})
    permissions, source = status.get("permissions"), status.get("source")
    return SkillView(
        **identity(body),
        status=status,
        problems=tuple(problems),
        spec=spec,
        accepted_permissions=decode(PermissionsSpec, permissions or {}, "status.permissions", []),
        accepted_source=decode(SkillSourceSpec, source, "status.source", []) if source else None,
    )
