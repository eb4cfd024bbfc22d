"""Skills whose files are in git or in an image: their probe, and how agents get the files. Pure.

Agents get exactly the files that were checked. An init container fetches a git commit and compares its digest; an image
is referenced by its own digest. Only the init container has the git credentials and authorities.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.spec.skill import GitRepositorySource, OciImageSource, SkillSourceSpec, SkillView
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.addresses import HostAddress, destination, parse_address
from fleetwright_operator.build.network.egress import EgressRule, Services, dns_rule
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir
from fleetwright_operator.build.pod.file_mounts import ROOT
from fleetwright_operator.build.pod.git_access import (
    SourceSecret,
    git_access_arguments,
    git_mounts,
    git_secrets,
    git_volumes,
)
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS, NamespaceLimits
from fleetwright_operator.build.pod.pod_security import container_security
from fleetwright_operator.build.probe import Probe, helper_probe, runtime_pod
from fleetwright_operator.settings import Settings

_LOOKED_AT = "/skill"
_PULL_SECONDS = 180
"""Deadline of a probe with an image.

A registry that does not answer is reported after 90 seconds (measured), and only while the pod exists.
"""
_SIZE = "32Mi"
_TMP = {"name": "tmp", "mountPath": "/tmp"}  # noqa: S108 - the pod's own, an emptyDir


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSkill:
    """A checked source: exactly one of git and image, and the digest of the files."""

    source: SkillSourceSpec
    digest: str


def remote_source(source: SkillSourceSpec) -> SkillSourceSpec | None:
    """Return the part of a Skill's source that the reconciler cannot read itself."""
    if source.git is None and source.image is None:
        return None
    return SkillSourceSpec(git=source.git, image=source.image)


def git_address(skill: SkillView, settings: Settings) -> HostAddress | None:
    """Return the address that pods connect to for the commit: that of the proxy if there is one.

    Raises:
        UnusableAddress: No pod can reach it.
    """
    git = skill.spec.source.git
    return parse_address(git.destination, namespace=skill.namespace, settings=settings) if git else None


def pull_secret(source: SkillSourceSpec) -> str | None:
    return source.image.pull_secret.name if source.image and source.image.pull_secret else None


def source_secrets(source: SkillSourceSpec) -> Iterator[SourceSecret]:
    """Yield the Secrets that the source needs."""
    if source.git is not None:
        yield from git_secrets(source.git, "spec.source.git")
    if name := pull_secret(source):
        yield SourceSecret(field="spec.source.image.pullSecret", name=name)


def skill_probe(
    skill: SkillView,
    *,
    about: Sequence[str],
    services: Services,
    limits: NamespaceLimits = NO_LIMITS,
    settings: Settings,
) -> Probe:
    """Return a probe that reads the files as agents will. The address of git must resolve.

    Raises:
        ValueError: The address of git does not resolve, or the source is neither git nor an image.
    """
    probe = _unplaced_probe(skill, about=about, services=services, settings=settings)
    return helper_probe(probe, HelperPodSettings(settings=settings, limits=limits))


def _unplaced_probe(skill: SkillView, *, about: Sequence[str], services: Services, settings: Settings) -> Probe:
    source = skill.spec.source
    address = git_address(skill, settings)
    if source.git is None or address is None:
        if source.image is None:
            raise ValueError(f"Skill {skill.name!r} has neither git nor an image as its source")
        mount = {"name": "skill", "mountPath": _LOOKED_AT, "readOnly": True}
        volume = _image_volume("skill", source.image)
        pull = image_pull_secrets([RemoteSkill(source=source, digest="")])
        pod = runtime_pod(["skill", f"--folder={_LOOKED_AT}"], settings, mounts=[mount], volumes=[volume], pull=pull)
        return Probe(owner=owner_of(skill), pod=pod, egress_rules=[], seconds=_PULL_SECONDS, about=about)
    found = destination(address, services, settings)
    if isinstance(found, str):
        raise ValueError(found)
    rule = EgressRule(to=found.text, why="to look at its files", peers=found.peers, ports=(("TCP", found.port),))
    pod = runtime_pod(
        ["skill", *_git_arguments(source.git)],
        settings,
        mounts=git_mounts("git", source.git),
        volumes=git_volumes("git", source.git),
    )
    return Probe(owner=owner_of(skill), pod=pod, egress_rules=[dns_rule(settings), rule], about=about)


def remote_volumes(volume: str, remote: RemoteSkill) -> list[dict[str, Any]]:
    if remote.source.image is not None:
        return [_image_volume(volume, remote.source.image)]
    return [empty_dir(volume, _SIZE), *git_volumes(_secret_volume(volume), remote.source.git)]


def fetching_container(
    skill: str, volume: str, remote: RemoteSkill, resources: Mapping[str, Any], settings: Settings
) -> list[dict[str, Any]]:
    """Return the init container that fetches the files; empty if the kubelet mounts them from an image.

    `resources` are those of the agent's container. It starts later, so the pod needs no more, and a namespace that
    admits the one container admits the other.
    """
    git = remote.source.git
    if git is None:
        return []
    folder = f"{ROOT}/skills/{skill}"
    arguments = [*_git_arguments(git), f"--into={folder}", f"--digest={remote.digest}"]
    return [
        {
            "name": volume,
            "image": settings.agent_image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["fleetwright-agent", "fetch", "skill", *arguments],
            "resources": dict(resources),
            "securityContext": container_security(),
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"name": volume, "mountPath": folder},
                *git_mounts(_secret_volume(volume), git),
                _TMP,
            ],
        }
    ]


def image_pull_secrets(remote: Sequence[RemoteSkill]) -> list[str]:
    return sorted(filter(None, {pull_secret(each.source) for each in remote}))


def _git_arguments(git: GitRepositorySource) -> list[str]:
    return [f"--url={git.url}", f"--commit={git.commit}", f"--path={git.path or ''}", *git_access_arguments(git)]


def _image_volume(volume: str, image: OciImageSource) -> dict[str, Any]:
    return {"name": volume, "image": {"reference": image.reference, "pullPolicy": "IfNotPresent"}}


def _secret_volume(volume: str) -> str:
    return f"skill-git-{short_hash(volume)}"
