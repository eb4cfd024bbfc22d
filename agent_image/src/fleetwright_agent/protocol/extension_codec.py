"""The wires of an extension's data: how it lies in a message or an artifact, written and read.

It is written into the metadata under the extension's URI, and where wanted as a data part beside it for readers of
older dialects. It is read from either, and from a part whose type is the URI; numbers may come as 3.0 for 3 (X-08 to
X-10). Refuses: deciding whether what was found is what the extension defines.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import Artifact, Message, Part
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

_VERSION: Final = re.compile(r"v[0-9]+")
"""Where an extension's URI ends with it, the name stands before: `…/call-path/v1` is call-path-v1."""


def mime_type(name: str) -> str:
    """Of an extension by its URI or its bare name, `hitl-v1`."""
    *before, last = name.split("/")
    if before and _VERSION.fullmatch(last):
        last = f"{before[-1]}-{last}"
    return f"application/vnd.protolabs.{last}+json"


def typed_part(payload: Mapping[str, Any], mime: str, *, media_type: str | None = None) -> Part:
    """Data that says what it is in both places where readers look."""
    part = Part(data=ParseDict(dict(payload), Value()), media_type=media_type or mime)
    part.metadata["mimeType"] = mime
    return part


def data_part(name: str, payload: Mapping[str, Any]) -> Part:
    return typed_part(payload, mime_type(name), media_type="application/json")


def attach(target: Message | Artifact, uri: str, payload: Mapping[str, Any], *, as_part: bool = False) -> None:
    target.extensions.append(uri)
    target.metadata.update({uri: dict(payload)})
    if as_part:
        target.parts.append(data_part(uri, payload))


def read(source: Message | Artifact, uri: str) -> dict[str, Any] | None:
    """The payload of an extension, whichever wire it came on: metadata before parts, the first part before others."""
    found = MessageToDict(source.metadata).get(uri)
    for part in source.parts:
        if _stated(part) in (mime_type(uri), uri):
            found = found or MessageToDict(part.data)
    return found if isinstance(found, dict) else None


def has_part(source: Message | Artifact, uri: str) -> bool:
    """Whether the data of that extension is there as a part as well."""
    return any(_stated(part) in (mime_type(uri), uri) for part in source.parts)


def lifted(message: Message, uris: Collection[str]) -> Message:
    """The message with the data of those extensions in its metadata, where it came as parts.

    What lies in the metadata already counts before a part, and the first part before others.
    """
    names = {name: uri for uri in uris for name in (uri, mime_type(uri))}
    said = [names.get(_stated(part), "") for part in message.parts]
    if not any(said):
        return message
    kept = Message()
    kept.CopyFrom(message)
    del kept.parts[:]
    for part, uri in zip(message.parts, said, strict=True):
        if not uri:
            kept.parts.append(part)
        elif uri not in kept.metadata.fields:
            kept.metadata.update({uri: _unwrapped(MessageToDict(part.data))})
    return kept


def _stated(part: Part) -> str:
    """What a data part says that it is; nothing of any other."""
    if not part.HasField("data"):
        return ""
    return str(MessageToDict(part.metadata).get("mimeType", ""))


def _unwrapped(data: Any) -> Any:
    """A list, for which a data part had no room before 1.0."""
    if isinstance(data, dict) and list(data) == ["value"] and isinstance(data["value"], list):
        return data["value"]
    return data
