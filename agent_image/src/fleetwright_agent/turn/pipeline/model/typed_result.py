"""Turns the final answer of a turn into data of a declared schema, if the caller requested such data.

After the answer, the model must submit the same content by a call of `submit_<skill>`. If the data does not match the
schema, the model may correct it once. After a second mismatch, the caller gets only the text. None of these calls is
stored in the conversation.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_a2a.extensions import SKILL_HINT
from fleetwright_agent.config.server import TypedResult
from fleetwright_agent.protocol.frames import Result
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.model_calls import ModelFailed

_log = logging.getLogger(__name__)
_ATTEMPTS = 2


class TypedResultLink:
    """Wraps the links that retry and charge, so that its extra model calls pass through these links too."""

    def __init__(self, results: Sequence[TypedResult]) -> None:
        self._results = {result.skill: result for result in results}

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        reply = await call(request)
        context: TurnContext = request.runtime.context
        wanted = self._results.get(str(context.request.metadata.get(SKILL_HINT, "")))
        message = _answer(reply)
        if wanted is not None and message is not None and message.text and not message.tool_calls:
            await self._submit(request, call, message, wanted)
        return reply

    async def _submit(self, request: Request, call: ModelCall, answer: AIMessage, wanted: TypedResult) -> None:
        name = offered_name(f"submit_{wanted.skill}")
        asked = HumanMessage(f"Hand your answer in as data, by calling {name}. It says:\n{answer.text}")
        messages: list[AnyMessage] = [*request.messages, answer, asked]
        context: TurnContext = request.runtime.context
        context.silent = True
        try:
            for _ in range(_ATTEMPTS):
                made = _answer(await call(_forced(request, messages, name, wanted)))
                data, wrong = _fitting(made, name, wanted)
                if data is not None:
                    context.emit(Result(data, wanted.media_type))
                    return
                messages += _told(made, wrong)
        except ModelFailed as failed:
            _log.warning("the request for a typed result failed: %s", failed.reason)
        finally:
            context.silent = False
        _log.warning("the model returned no result that matches the schema of %s", wanted.skill)


def _forced(request: Request, messages: Sequence[AnyMessage], name: str, wanted: TypedResult) -> Request:
    parameters = {"type": "object", **wanted.output_schema}
    function = {"name": name, "description": "Hand in the result.", "parameters": parameters}
    choice = {"type": "function", "function": {"name": name}}
    return request.override(
        messages=list(messages), tools=[{"type": "function", "function": function}], tool_choice=choice
    )


def _fitting(made: AIMessage | None, name: str, wanted: TypedResult) -> tuple[Mapping[str, Any] | None, str]:
    """Return the data, or the reason why it does not match."""
    call = next((call for call in made.tool_calls if call["name"] == name), None) if made else None
    if call is None:
        return None, f"call {name}"
    # Imported lazily: most agents have no typed results.
    import jsonschema
    import referencing

    # An empty registry: a schema must not make this process fetch a URL.
    no_schemas: referencing.Registry[Any] = referencing.Registry()
    try:
        jsonschema.validate(call["args"], {"type": "object", **wanted.output_schema}, registry=no_schemas)
    except jsonschema.ValidationError as error:
        where = "/".join(str(part) for part in error.absolute_path) or "arguments"
        return None, f"{where}: {error.message}"
    except (jsonschema.SchemaError, referencing.exceptions.Unresolvable):
        return None, "the schema cannot be used"
    return call["args"], ""


def _told(made: AIMessage | None, wrong: str) -> list[AnyMessage]:
    """Return messages that explain the mismatch to the model, for its next attempt."""
    if made is None or not made.tool_calls:
        return [*([made] if made else []), HumanMessage(f"That was no data: {wrong}.")]
    told = [ToolMessage(f"Error: {wrong}", tool_call_id=call["id"] or "", status="error") for call in made.tool_calls]
    return [made, *told]


def _answer(reply: Reply) -> AIMessage | None:
    response = reply if isinstance(reply, ModelResponse) else reply.model_response
    return next((message for message in response.result if isinstance(message, AIMessage)), None)
