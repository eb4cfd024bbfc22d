"""Converts messages and tools to the format of chat completions. Pure.

The result equals that of LangChain's `ChatOpenAI`, which a test compares. LangChain's general conversion
(`convert_to_openai_messages`) escapes characters in arguments and changes content blocks, so the prompts of stored
conversations would differ.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)

_OTHER_PROVIDERS: Final = {"tool_use", "thinking", "reasoning_content", "function_call", "code_interpreter_call"}
"""Blocks that chat completions reject. The calls among them are also in `tool_calls`."""
_OWN_FIELDS: Final = {"reasoning", "tool_call", "invalid_tool_call"}
"""Blocks of LangChain's own format that chat completions have in other fields, or not at all."""
_REASONING_MODEL: Final = re.compile(r"o\d")
_BREAKPOINT: Final = "prompt_cache_breakpoint"


def converted(messages: Sequence[BaseMessage], model: str) -> list[dict[str, Any]]:
    """Return the messages of a request.

    Raises: TypeError for a message of another kind than those of system, user, model and tool.
    """
    system = "developer" if _REASONING_MODEL.match(model) else "system"
    return [_converted(message, system) for message in messages]


def converted_choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> Any:
    """Return the tool choice of a request, or None if it has none.

    Args:
        choice: The name of a tool, `auto`, `none`, `required`, or the provider's format. `any` and True mean
            `required`.
        tools: The converted tools.
    """
    if not choice:
        return None
    if choice is True or choice == "any":
        return "required"
    if choice in [tool.get("function", {}).get("name") for tool in tools]:
        return {"type": "function", "function": {"name": choice}}
    return choice


def _converted(message: BaseMessage, system: str) -> dict[str, Any]:
    match message:
        case ToolMessage():
            content = _content(message.content)
            return {"role": "tool", "content": _text_only(content), "tool_call_id": message.tool_call_id}
        case AIMessage():
            said: dict[str, Any] = {"role": "assistant", "content": _content(_answer(message.content))}
            if calls := _calls(message):
                # Some servers reject a call with empty text.
                said |= {"content": said["content"] or None, "tool_calls": calls}
        case HumanMessage():
            said = {"role": "user", "content": _content(message.content)}
        case SystemMessage():
            said = {"role": system, "content": _content(message.content)}
        case _:
            raise TypeError(f"chat completions have no message of the type {message.type}")
    name = message.name or message.additional_kwargs.get("name")
    return said if name is None else {**said, "name": name}


def _calls(message: AIMessage) -> list[dict[str, Any]]:
    whole = [(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False)) for call in message.tool_calls]
    broken = [(call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls]
    return [
        {"type": "function", "id": identity, "function": {"name": name, "arguments": arguments}}
        for identity, name, arguments in (*whole, *broken)
    ]


def _answer(content: Any) -> Any:
    """Return the content of an answer without the blocks that have fields of their own."""
    if not isinstance(content, list):
        return content
    blocks = [block for block in content if _type(block) not in _OWN_FIELDS]
    return [{"type": "text", "text": block["text"]} if _type(block) == "text" else block for block in blocks]


def _text_only(content: Any) -> Any:
    """Return the content of a tool result whose text blocks have no further fields."""
    if not isinstance(content, list):
        return content
    return [_text(block) if _type(block) == "text" and "text" in block else block for block in content]


def _text(block: Mapping[str, Any]) -> dict[str, Any]:
    kept = {_BREAKPOINT: block[_BREAKPOINT]} if _BREAKPOINT in block else {}
    return {"type": "text", "text": block["text"], **kept}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    blocks = [_block(block) for block in content if _type(block) not in _OTHER_PROVIDERS]
    return [block for block in blocks if block is not None]


def _block(block: Any) -> Any:
    """Return a content block in the format of chat completions, or None if it has none."""
    if not isinstance(block, dict):
        return block
    if is_data_content_block(block):
        return {**convert_to_openai_data_block(block, api="chat/completions"), **_breakpoint(block)}
    extras = block.get("extras")
    if _type(block) == "text" and "text" in block and isinstance(extras, dict) and _BREAKPOINT in extras:
        return {"type": "text", "text": block["text"], **_breakpoint(block)}
    source = block.get("source")
    if _type(block) == "image" and source and isinstance(source, dict):
        return _anthropic_image(source)
    return block


def _breakpoint(block: Mapping[str, Any]) -> dict[str, Any]:
    extras = block.get("extras")
    holder = block if _BREAKPOINT in block else extras if isinstance(extras, dict) else {}
    return {_BREAKPOINT: holder[_BREAKPOINT]} if _BREAKPOINT in holder else {}


def _anthropic_image(source: Mapping[str, Any]) -> dict[str, Any] | None:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)} if kind and data:
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        case {"type": "url", "url": str(url)} if url:
            return {"type": "image_url", "image_url": {"url": url}}
    return None


def _type(block: Any) -> Any:
    return block.get("type") if isinstance(block, dict) else None
