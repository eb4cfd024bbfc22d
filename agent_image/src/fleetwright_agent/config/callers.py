"""The accepted callers: the schema of `auth/callers.json`. The file contains digests of tokens, never tokens."""

from enum import StrEnum
from typing import Final, Literal
from urllib.parse import quote, unquote

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


PERSON: Final = "user:"
"""The prefix of persons, whom the gateway identifies."""
SAFE: Final = ":/@.-_+"
VIA: Final = " via "
"""Separates a person from the agent that acts for that person. Names of persons contain no space."""


def person(name: str) -> str:
    """Return the owner key of a person. The name is percent-encoded, so that no name can look like another owner."""
    return f"{PERSON}{quote(name, safe=SAFE)}"


def owner_key(caller: str) -> str:
    """Return the owner key of a caller that a configuration names with the plain name of a person."""
    return person(caller.removeprefix(PERSON)) if caller.startswith(PERSON) else caller


def person_name(owner: str) -> str:
    """Return the name of a person, or the owner key itself for all other callers."""
    return unquote(owner.removeprefix(PERSON)) if owner.startswith(PERSON) and VIA not in owner else owner


def agents_of(owner: str) -> tuple[str, ...]:
    """Return the agents that an owner key names, the first caller first."""
    return tuple(each for each in owner.split(VIA) if each.startswith(f"{CallerKind.AGENT}:"))


def participants_of(owner: str) -> tuple[str, ...]:
    """Return the principal and the agents that act for it, with the plain names of persons."""
    return tuple(f"{PERSON}{person_name(each)}" if each.startswith(PERSON) else each for each in owner.split(VIA))


class CallerKind(StrEnum):
    CLIENT = "client"
    AGENT = "agent"


def is_client(owner: str) -> bool:
    """Return True for a client or a person; False for an agent, even if it acts for a person."""
    return owner.startswith((f"{CallerKind.CLIENT}:", PERSON)) and VIA not in owner


class Caller(_Part):
    """An accepted token's digest, and the caller that holds the token. The caller owns the tasks that it creates."""

    name: str = Field(min_length=1, max_length=253)
    """`default` for a client, `<namespace>/<name>` for an agent."""
    kind: CallerKind
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    expires: AwareDatetime | None = None
    """The time from which the token is rejected; if unset, it does not expire."""

    @property
    def owner(self) -> str:
        return f"{self.kind}:{self.name}"


class Callers(_Part):
    """The schema of `auth/callers.json`, which is read again when the file changes."""

    version: Literal[1]
    callers: tuple[Caller, ...] = ()


class Administrators(_Part):
    """The schema of `auth/administrators.json`, which is read again when the file changes."""

    version: Literal[1]
    administrators: tuple[str, ...] = ()
    """Names of clients."""
