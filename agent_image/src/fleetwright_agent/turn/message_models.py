"""Builds the pydantic models that several threads use, before any thread uses them."""

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage


def build_message_models() -> None:
    """Build the classes of messages, which the imports of the turn have deferred.

    The event loop creates messages while a thread of the storage reads others, and pydantic does not lock the build.
    """
    for model in (AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage):
        model.model_rebuild()
