"""How a pod reaches a git server: the arguments of its program, and the keys of Secrets that it mounts. Pure.

Sources of Skills and of workspaces have the same fields. Only the containers that read the repository mount the keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.spec.git import GitServerSpec
from fleetwright_operator.build.pod.file_mounts import ROOT, secret_volume

_CREDENTIALS: Final = f"{ROOT}/git"
_AUTHORITIES: Final = f"{ROOT}/git-ca"
_CREDENTIAL_KEYS: Final = ("password", "token", "username")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSecret:
    """A Secret that a source needs."""

    field: str
    """The field of the spec that names it."""
    name: str
    key: str | None = None
    """The key that it must have; None if the reader decides that."""


def git_secrets(git: GitServerSpec, field: str) -> Iterator[SourceSecret]:
    """Yield the Secrets of a git server. Args: `field` is the field of the server in the spec."""
    if git.secret_ref is not None:
        yield SourceSecret(field=f"{field}.secretRef", name=git.secret_ref.name)
    if git.ca_secret_ref is not None:
        reference = git.ca_secret_ref
        yield SourceSecret(field=f"{field}.caSecretRef", name=reference.name, key=reference.key)


def git_urls(git: GitServerSpec) -> Iterator[tuple[str, str]]:
    """Yield (field, address) for every address of a git server, which must be one that pods may reach."""
    yield "url", git.url
    if git.proxy_url is not None:
        yield "proxyURL", git.proxy_url


def git_access_arguments(git: GitServerSpec) -> list[str]:
    """Return arguments of the form `--option=value`, so that no value is ever taken for an option."""
    return [
        *([f"--credentials={_CREDENTIALS}"] if git.secret_ref else []),
        *([f"--ca-file={_AUTHORITIES}/{git.ca_secret_ref.key}"] if git.ca_secret_ref else []),
        *([f"--proxy-url={git.proxy_url}"] if git.proxy_url is not None else []),
    ]


def git_mounts(volume: str, git: GitServerSpec | None) -> list[dict[str, Any]]:
    """Return the mounts. Args: `volume` is the name of the volume with the credentials."""
    if git is None:
        return []
    return [
        *([_read_only_mount(volume, _CREDENTIALS)] if git.secret_ref else []),
        *([_read_only_mount(_authority_volume(volume), _AUTHORITIES)] if git.ca_secret_ref else []),
    ]


def git_volumes(volume: str, git: GitServerSpec | None) -> list[dict[str, Any]]:
    """Return volumes with the keys that exist in the Secrets. The program in the pod reports a missing key."""
    if git is None:
        return []
    secret, authority = git.secret_ref, git.ca_secret_ref
    return [
        *([_optional_volume(volume, secret.name, _CREDENTIAL_KEYS)] if secret else []),
        *([_optional_volume(_authority_volume(volume), authority.name, (authority.key,))] if authority else []),
    ]


def _authority_volume(volume: str) -> str:
    return f"{volume}-ca"


def _read_only_mount(volume: str, folder: str) -> dict[str, Any]:
    return {"name": volume, "mountPath": folder, "readOnly": True}


def _optional_volume(volume: str, secret: str, keys: tuple[str, ...]) -> dict[str, Any]:
    whole = secret_volume(volume, secret, [{"key": key, "path": key} for key in keys])
    return {**whole, "secret": {**whole["secret"], "optional": True}}
