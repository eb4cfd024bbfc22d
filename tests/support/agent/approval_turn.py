"""A turn that asks for approvals of a call."""

from collections.abc import AsyncIterator

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest

ARGUMENTS = {"amount": 30}


async def ask_for_approvals(request: TurnRequest) -> AsyncIterator[Frame]:
    """Ask for one approval, or for a second one if the first reply has the reason `more`, and repeat the reply."""
    if request.reply is None or request.reply.value == {"approved": True, "reason": "more"}:
        number = 1 if request.reply is None else 2
        payload = {"kind": "approval", "title": "Charge 30?", "detail": '{"amount": 30}', "project": "team/echo"}
        ask = f"ask-{request.task_id}-{number}"
        yield InterruptRequest(InterruptKind.APPROVAL, "Charge?", payload, ask, "house__charge_card", ARGUMENTS)
        return
    yield Text(f"{request.reply.value}")
    yield TurnDone(f"{request.reply.value}")
