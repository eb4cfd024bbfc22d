"""The server of a git repository, which the sources of Skills and of workspaces describe with the same fields."""

from dataclasses import dataclass

from fleetwright_api.spec.references import AuthorityReference, ObjectReference


@dataclass(frozen=True, slots=True, kw_only=True)
class GitServerSpec:
    url: str
    secret_ref: ObjectReference | None = None
    ca_secret_ref: AuthorityReference | None = None
    proxy_url: str | None = None

    @property
    def destination(self) -> str:
        """The address that pods connect to: that of the proxy if there is one."""
        return self.url if self.proxy_url is None else self.proxy_url

    @property
    def destination_field(self) -> str:
        return "url" if self.proxy_url is None else "proxyURL"
