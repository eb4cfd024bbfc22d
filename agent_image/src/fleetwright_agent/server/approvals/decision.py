"""A person's decision about an approval, as the operator delivers it, and its conversion to an answer. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self
from uuid import NAMESPACE_OID, uuid5

import rfc8785
from a2a.types.a2a_pb2 import Message, Part, Role
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from pydantic import AfterValidator, Field, StringConstraints, ValidationError, model_validator

from fleetwright_agent.config.base import Part as Model
from fleetwright_agent.config.callers import person
from fleetwright_agent.protocol.arguments import arguments_digest, canonical_size
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.tools.human.approval import MAX_REASON

_ARGUMENTS: Final = 64 * 1024
_DIGEST: Final = r"^sha256:[0-9a-f]{64}$"


def _exact(arguments: dict[str, Any]) -> dict[str, Any]:
    """Check the size of the arguments, and that their numbers are exact as doubles, as in A2A messages."""
    if canonical_size(arguments) > _ARGUMENTS:
        raise ValueError(f"arguments are larger than {_ARGUMENTS} bytes")
    return arguments


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it contains characters that are not printable")
    return text


_Id = Annotated[str, Field(min_length=1, max_length=512)]


class ApprovalDecision(Model):
    """The body of `POST /approvals/{ask}/decision`."""

    task: _Id
    decision: Literal["Approved", "Denied"]
    decided_by: Annotated[str, StringConstraints(min_length=1, max_length=512), AfterValidator(_printable)]
    """The name of the person, as the API server knows it."""
    reason: str = Field(default="", max_length=MAX_REASON)
    arguments: Annotated[dict[str, Any], AfterValidator(_exact)] | None = None
    """The arguments with which the call runs; None for the arguments of the question."""
    arguments_digest: str = Field(pattern=_DIGEST)
    """The digest of the arguments that the person has seen."""

    @model_validator(mode="after")
    def _edits_only_what_runs(self) -> Self:
        if self.arguments is not None and self.decision == "Denied":
            raise ValueError("arguments belong to an approval; leave them out of a denial")
        return self

    @property
    def by(self) -> str:
        return person(self.decided_by)

    @property
    def edit(self) -> dict[str, Any] | None:
        """The arguments, if they differ from those that the person has seen."""
        changed = self.arguments is not None and arguments_digest(self.arguments) != self.arguments_digest
        return self.arguments if changed else None

    def reply(self) -> dict[str, Any]:
        """Return the decision as an answer to the task."""
        if self.decision == "Denied":
            return {"approved": False, **({"reason": self.reason} if self.reason else {})}
        why = {"reason": self.reason} if self.reason else {}
        return {"approved": True, **why, **({"arguments": self.edit} if self.edit is not None else {})}

    def message(self, ask: str) -> Message:
        """Return the answer as a message of the task."""
        data = Part(data=ParseDict(self.reply(), Value()), media_type="application/json")
        # The text is for people, and for executors of the a2a-sdk that read no data.
        text = Part(text="approved" if self.decision == "Approved" else "declined")
        return Message(message_id=self._identity(ask), role=Role.ROLE_USER, parts=[text, data])

    def claim(self, owner: str, ask: str) -> Claim:
        """Return the deduplication key. No message of a caller has the same key."""
        said = rfc8785.dumps([self.task, ask, self.by, self.reply()])
        return Claim(owner, self._identity(ask), hashlib.sha256(b"decision of an approval\n" + said).digest())

    def _identity(self, ask: str) -> str:
        return str(uuid5(NAMESPACE_OID, f"{self.task}\n{ask}\n{self.by}"))


def parse_decision(body: Mapping[str, Any]) -> ApprovalDecision:
    """Raises: ValueError: the body is invalid. The text names the fields."""
    try:
        return ApprovalDecision.model_validate(body)
    except ValidationError as error:
        raise ValueError("; ".join(map(_problem, error.errors(include_url=False, include_input=False)))) from None


def _problem(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    text = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        text = "there is no such field; changed arguments belong in arguments, the reason in reason"
    return f"{place}: {text}" if place else text
