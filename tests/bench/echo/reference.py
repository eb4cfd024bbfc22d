"""The reference: an echo server of the a2a-sdk, built as its documentation shows. It runs in its own environment.

    python tests/bench/echo/reference.py PORT [DATABASE]

Tasks are in memory, or in the given SQLite file. The server does not authenticate callers.
"""

import os
import sys

os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import uvicorn
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from steered import Steered


def store(database: str) -> object:
    if not database:
        return InMemoryTaskStore()
    from a2a.server.tasks import DatabaseTaskStore
    from sqlalchemy.ext.asyncio import create_async_engine

    return DatabaseTaskStore(create_async_engine(f"sqlite+aiosqlite:///{database}"))


def main(port: int, database: str = "") -> None:
    interface = AgentInterface(url=f"http://127.0.0.1:{port}/a2a", protocol_binding="JSONRPC", protocol_version="1.0")
    card = AgentCard(
        name="echo",
        description="Repeats.",
        version="1",
        supported_interfaces=[interface],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="chat", name="chat", description="Talk.", tags=["chat"])],
    )
    handler = DefaultRequestHandler(agent_executor=Steered(), task_store=store(database), agent_card=card)
    routes = [
        Route("/healthz", lambda _: PlainTextResponse("ok\n")),
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/a2a"),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning", access_log=False, loop="uvloop")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
