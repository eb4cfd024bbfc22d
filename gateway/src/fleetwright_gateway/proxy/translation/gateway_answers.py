"""Answers calls of A2A in place of an agent, in the format of every binding and version.

The extended card is answered here, because the agent's own names the address of the agent. A client would send its
Kubernetes token to that address. A call in an unknown version gets its error here, because some agents serve it in
another version.
"""

from typing import Final, NoReturn

from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError, UnsupportedOperationError
from starlette.authentication import SimpleUser
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Scope, Send

from fleetwright_a2a.bindings.calls import RpcDispatcher
from fleetwright_a2a.bindings.jsonrpc import JsonRpc
from fleetwright_a2a.bindings.operation_handler import OperationHandler
from fleetwright_a2a.bindings.rest import rest_routes
from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_a2a.card import parse_card
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v03_rest import V03_REST
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_gateway.proxy.request_kinds import is_rpc

_NO_OPERATION: Final = "The gateway does not answer this call in place of the agent"


class _GatewayOperations(OperationHandler):
    """The operations that the gateway answers itself."""

    def __init__(self, extended_card: str | None) -> None:
        self._extended_card = extended_card

    async def on_get_extended_agent_card(self, *_: object, **__: object) -> AgentCard:
        if self._extended_card is None:
            raise ExtendedAgentCardNotConfiguredError
        return parse_card(self._extended_card.encode()).message()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise UnsupportedOperationError(_NO_OPERATION)

    on_message_send = _refuse
    on_message_send_stream = _refuse
    on_get_task = _refuse
    on_list_tasks = _refuse
    on_cancel_task = _refuse
    on_subscribe_to_task = _refuse
    on_create_task_push_notification_config = _refuse
    on_get_task_push_notification_config = _refuse
    on_list_task_push_notification_configs = _refuse
    on_delete_task_push_notification_config = _refuse


async def answer_call(scope: Scope, body: bytes, send: Send, *, caller: str, extended_card: str | None) -> None:
    """Answer a call.

    Args:
        scope: The scope of the request. Its path is the path at the agent.
        body: The body of the request.
        send: Sends the response.
        caller: The caller, as the agent sees it.
        extended_card: The extended card with the gateway's address; None if the agent has no extended card.
    """
    calls = RpcDispatcher(
        _GatewayOperations(extended_card),
        admission=lambda _: None,
        spoken=frozenset(),
        card=lambda: None,
        keepalive=KEEPALIVE_SECONDS,
    )
    binding: ASGIApp
    if is_rpc(scope["method"], scope["path"]):
        binding = JsonRpc(calls, (V10, V03, V01), has_chosen_id=_has_chosen_id)
    else:
        binding = Router(rest_routes(calls, (V10, V03_REST)))

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    await binding({**scope, "user": SimpleUser(caller)}, receive, send)


async def _has_chosen_id(_owner: str, _task_id: str) -> bool:
    """Return False: a task whose id the caller has chosen is known to its agent only."""
    return False
