"""The routes of A2A: every enabled protocol version, over JSON-RPC and HTTP+JSON, with one request handler."""

from collections.abc import Collection
from typing import Final

from starlette.routing import Route

from fleetwright_a2a.bindings.calls import Admission, RpcDispatcher
from fleetwright_a2a.bindings.jsonrpc import JsonRpc
from fleetwright_a2a.bindings.operation_handler import OperationHandler
from fleetwright_a2a.bindings.rest import rest_routes
from fleetwright_a2a.card import Card
from fleetwright_a2a.dialects.dialect import Dialect
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v03_rest import V03_REST
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.errors import RPC_PATH
from fleetwright_a2a.extensions import CHOSEN_ID
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.server import DialectName
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks

_JSON_RPC: Final[dict[DialectName, Dialect]] = {DialectName.V1_0: V10, DialectName.V0_3: V03, DialectName.V0_1: V01}
_REST: Final[dict[DialectName, Dialect]] = {DialectName.V1_0: V10, DialectName.V0_3: V03_REST}


def routes(
    handler: OperationHandler,
    dialects: Collection[DialectName],
    *,
    tasks: ActiveTasks,
    admission: Admission,
    spoken: frozenset[str],
    card: FileWatcher[Card],
    keepalive: float,
) -> list[Route]:
    async def has_chosen_id(owner: str, task_id: str) -> bool:
        live = await tasks.find(owner, task_id)
        return live is not None and CHOSEN_ID in live.stored().task.metadata

    calls = RpcDispatcher(
        handler, admission=admission, spoken=spoken, card=lambda: card.recent()[0], keepalive=keepalive
    )
    rpc = JsonRpc(calls, [d for name, d in _JSON_RPC.items() if name in dialects], has_chosen_id=has_chosen_id)
    rest = [dialect for name, dialect in _REST.items() if name in dialects]
    return [
        *(Route(path, rpc, methods=["POST"]) for path in (RPC_PATH, f"{RPC_PATH}/")),
        *rest_routes(calls, rest),
    ]
