"""The common part of the views of all kinds: identity, status and the errors in the spec."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from fleetwright_api.spec.decoder import MALFORMED
from fleetwright_api.violation import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomObject:
    """An object of one of Fleetwright's kinds, as the API server stores it."""

    kind: ClassVar[str]
    namespace: str
    name: str
    uid: str = ""
    generation: int = 0
    status: Mapping[str, Any] = field(default_factory=dict)
    """The status as a mapping. It needs no decoding, because the operator has written it."""
    problems: tuple[Violation, ...] = ()
    """Errors in the spec: unknown enumeration values, values of a wrong type, and missing fields."""

    @property
    def malformed(self) -> tuple[Violation, ...]:
        """The errors that leave a part of the spec unknown. No decision may be based on a spec with such errors."""
        return tuple(problem for problem in self.problems if problem.reason == MALFORMED)


def identity(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments that come from the object's metadata. The API server guarantees their types."""
    metadata = body["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "generation": metadata.get("generation", 0),
    }
