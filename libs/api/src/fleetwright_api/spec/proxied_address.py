"""The address of a server that pods may reach through an HTTP proxy.

Git servers and remote MCP servers describe it with the same fields. Models choose their address in the catalog instead.
"""


class ProxiedAddress:
    """The base of specs with the fields `url` and `proxyURL`. It declares no fields, which would change their order."""

    __slots__ = ()
    url: str
    proxy_url: str | None

    @property
    def destination(self) -> str:
        """The URL that pods connect to: that of the proxy if there is one."""
        return self.url if self.proxy_url is None else self.proxy_url

    @property
    def destination_field(self) -> str:
        """The field of the spec that contains the destination."""
        return "url" if self.proxy_url is None else "proxyURL"
