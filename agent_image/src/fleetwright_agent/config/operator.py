"""The operator as a caller: the schema of `auth/operator.json`, which contains digests of tokens, never tokens.

The file is separate from the list of callers. An earlier runtime does not know this kind of caller, and would refuse
the whole list.
"""

from typing import Final, Literal

from pydantic import Field

from fleetwright_agent.config.base import Part

OPERATOR: Final = "operator:operator"
"""The operator as a caller. It owns no tasks, and no other caller has a name with this prefix."""


class OperatorToken(Part):
    """The digest of a token that the operator sends to read and to decide the open approvals."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def owner(self) -> str:
        return OPERATOR


class OperatorTokens(Part):
    """The schema of `auth/operator.json`, which is read again when the file changes."""

    version: Literal[1]
    operators: tuple[OperatorToken, ...] = Field(min_length=1, max_length=8)
