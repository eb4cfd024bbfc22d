"""Which model answers in a local run: the offline server, or the provider that the environment names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KEY_SECRET = "provider"  # noqa: S105 - the name of a Secret, not its content
KEY_NAME = "api-key"
_DEFAULT_MODEL = "gpt-4o-mini"


@dataclass(frozen=True, slots=True)
class Provider:
    """A real one has a key; the offline one has an address only."""

    base_url: str
    model: str | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def offline(self) -> bool:
        return self.key is None


def provider_from(environ: Mapping[str, str], *, offline_url: str) -> Provider:
    """OPENAI_API_KEY chooses the real one, with OPENAI_BASE_URL and OPENAI_MODEL beside it."""
    key = environ.get("OPENAI_API_KEY")
    if not key:
        return Provider(offline_url)
    base_url = environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    return Provider(base_url, environ.get("OPENAI_MODEL") or _DEFAULT_MODEL, key)


def with_provider(agent: Mapping[str, Any], provider: Provider) -> dict[str, Any]:
    """The same agent, answered by that provider alone. A price declared for another model is dropped with its name."""
    model = dict(agent["spec"]["model"])
    for field_of_the_real_one in (
        *("apiKeySecretRef", "headersFrom", "caSecretRef", "proxyURL"),
        *("provider", "promptCache", "reasoningEffort", "vision", "fallbacks", "auxiliary"),
    ):
        model.pop(field_of_the_real_one, None)
    model["baseURL"] = provider.base_url
    if provider.key is not None:
        model |= {"name": provider.model, "apiKeySecretRef": {"name": KEY_SECRET, "key": KEY_NAME}}
        model.pop("price", None)
        model.pop("temperature", None)
    return {**agent, "spec": {**agent["spec"], "model": model}}
