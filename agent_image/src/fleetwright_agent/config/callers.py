"""Who may call: the shape of `auth/callers.json`. Refuses: tokens; only their digests are here."""

from enum import StrEnum
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class CallerKind(StrEnum):
    CLIENT = "client"
    AGENT = "agent"


class Caller(_Part):
    """A digest that is accepted, and who holds its token. The owner of what that caller makes."""

    name: str = Field(min_length=1, max_length=253)
    """`default` for a client, `<namespace>/<name>` for an agent."""
    kind: CallerKind
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    expires: AwareDatetime | None = None
    """From then on the token is refused; never where this is not said."""

    @property
    def owner(self) -> str:
        return f"{self.kind}:{self.name}"


class Callers(_Part):
    """The shape of `auth/callers.json`, read again when the file changes."""

    version: Literal[1]
    callers: tuple[Caller, ...] = ()
