"""A turn that asks its caller a question, for agents that call other agents."""

from collections.abc import AsyncGenerator

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks


class AskingTurn:
    """A turn that asks for a number, and repeats the reply."""

    def __init__(self) -> None:
        self.requests: list[TurnRequest] = []

    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]:
        self.requests.append(request)
        if request.reply is None:
            question = "How many eggs do the guests eat?"
            yield InterruptRequest(
                InterruptKind.QUESTION, question, {"question": question}, identity="eggs", tool="ask_human"
            )
        else:
            yield TurnDone(f"Boiled what was wanted: {request.reply.value}")

    async def aclose(self) -> None:
        """No resources to release."""
