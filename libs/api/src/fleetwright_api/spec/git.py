"""The server of a git repository, which the sources of Skills and of workspaces describe with the same fields."""

from dataclasses import dataclass

from fleetwright_api.spec.proxied_address import ProxiedAddress
from fleetwright_api.spec.references import AuthorityReference, ObjectReference


@dataclass(frozen=True, slots=True, kw_only=True)
class GitServerSpec(ProxiedAddress):
    """The address of a git server, its Secrets and its proxy."""

    url: str
    secret_ref: ObjectReference | None = None
    ca_secret_ref: AuthorityReference | None = None
    proxy_url: str | None = None
