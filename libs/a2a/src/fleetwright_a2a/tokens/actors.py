"""The chain of callers in a token (`act`, RFC 8693 §4.1). The immediate actor is outermost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 8
"""The largest number of actors in a chain."""


@dataclass(frozen=True, slots=True)
class Actor:
    subject: str
    """`agent:<namespace>/<name>` or `user:<name>`."""
    uid: str
    """The uid of the Agent object; empty for a person."""
    actor: "Actor | None" = None
    """The actor that called this actor; None for the first actor of the chain."""

    @property
    def depth(self) -> int:
        """The number of actors in the chain."""
        return 1 if self.actor is None else 1 + self.actor.depth


def encode_actor(actor: Actor, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the claim `act`. Raises: ValueError: the chain is too long."""
    if not depth:
        raise ValueError(f"a chain has at most {MAX_DEPTH} actors")
    before = {} if actor.actor is None else {"act": encode_actor(actor.actor, depth - 1)}
    return {"sub": actor.subject, "uid": actor.uid, **before}


def parse_actor(found: Mapping[str, Any], depth: int = MAX_DEPTH) -> Actor:
    """Parse the claim `act`. Raises: ValueError, KeyError or TypeError."""
    if not depth or type(found["sub"]) is not str or type(found["uid"]) is not str:
        raise ValueError("not an actor")
    return Actor(found["sub"], found["uid"], parse_actor(found["act"], depth - 1) if "act" in found else None)
