"""Reads and writes the data of an extension in messages and artifacts.

The data is written to the metadata under the extension's URI, and optionally to a data part for clients of older A2A
versions. Data is read from the metadata, or from a data part whose type is the extension's MIME type or URI. Numbers
may arrive as 3.0 instead of 3. This module does not validate the data against the extension.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import Artifact, Message, Part
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

_VERSION: Final = re.compile(r"v[0-9]+")
"""A version as the last segment of a URI. The segment before it is the name: `…/call-path/v1` becomes call-path-v1."""


def mime_type(name: str) -> str:
    """Return the MIME type of an extension, given its URI or its bare name such as `hitl-v1`."""
    *before, last = name.split("/")
    if before and _VERSION.fullmatch(last):
        last = f"{before[-1]}-{last}"
    return f"application/vnd.protolabs.{last}+json"


def typed_part(payload: Mapping[str, Any], mime: str, *, media_type: str | None = None) -> Part:
    """Return a data part with its type in the metadata; `media_type` is the same type unless it is given."""
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
    """Return the data of an extension: from the metadata, or else from the first part that contains it."""
    found = MessageToDict(source.metadata).get(uri)
    for part in source.parts:
        if _stated(part) in (mime_type(uri), uri):
            found = found or MessageToDict(part.data)
    return found if isinstance(found, dict) else None


def has_part(source: Message | Artifact, uri: str) -> bool:
    """Return whether a part contains the data of the extension."""
    return any(_stated(part) in (mime_type(uri), uri) for part in source.parts)


def lift_parts(message: Message, uris: Collection[str]) -> Message:
    """Move the data of the given extensions from data parts to the message's metadata.

    Returns a changed copy, or the message itself if no part has such data. All parts with such data are removed. Data
    that is already in the metadata is kept. If several parts have data of one extension, the first part is used.
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
    """Return the `mimeType` in the metadata of a data part; an empty string for other parts."""
    if not part.HasField("data"):
        return ""
    return str(MessageToDict(part.metadata).get("mimeType", ""))


def _unwrapped(data: Any) -> Any:
    """Unwrap a list; before A2A 1.0, a data part could only contain an object."""
    if isinstance(data, dict) and list(data) == ["value"] and isinstance(data["value"], list):
        return data["value"]
    return data
