"""Grants: permissions of a person for certain calls of a tool in the rest of a conversation.

Only a client or a person can give a grant, in the reply to a request for approval that offered the grant. The request
is read from the stored conversation, and the reply from the caller's message. No output of an agent, a tool or a model
gives a grant.
"""

from collections.abc import Collection, Sequence

from fleetwright_agent.config.callers import is_client
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest, TurnRequest
from fleetwright_agent.storage.grants import GrantStore
from fleetwright_agent.tools.human.approval import offered_grants, read_reply


class Grants:
    def __init__(self, store: GrantStore) -> None:
        self._store = store

    async def accept(self, request: TurnRequest, asked: Sequence[InterruptRequest]) -> None:
        """Store the grants that the reply of this request gives.

        Args: `asked` are the open questions of the conversation.
        """
        reply = request.reply
        if reply is None or not is_client(request.owner):
            return
        for ask in asked:
            if ask.identity == reply.ask and ask.kind is InterruptKind.APPROVAL:
                given = read_reply(reply.value, offered_grants(ask.payload)).grants
                if given:
                    await self._store.put(request.owner, request.context_id, ask.tool, given)

    async def covers(self, request: TurnRequest, tool: str, keys: Collection[str]) -> bool:
        """Return True if one of the grants with these keys was given to the tool in this conversation."""
        if not keys or not is_client(request.owner):
            return False
        return not (await self._store.keys(request.owner, request.context_id, tool)).isdisjoint(keys)
