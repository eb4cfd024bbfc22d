"""The wires of an extension's data: how it lies in a message or an artifact, written and read.

It is written into the metadata under the extension's URI, and where wanted as a data part beside it for readers of
older dialects. It is read from either, and from a part whose type is the URI; numbers may come as 3.0 for 3. Refuses:
what is not an object.
"""

from collections.abc import Mapping
from typing import Any

from a2a.types.a2a_pb2 import Artifact, Message, Part
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value


def mime_type(name: str) -> str:
    """Of an extension by its URI or its bare name, `hitl-v1`."""
    return f"application/vnd.protolabs.{name.rsplit('/', 1)[-1]}+json"


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
    """The newest payload of an extension, whichever wire it came on."""
    found = MessageToDict(source.metadata).get(uri)
    for part in source.parts:
        if part.HasField("data") and MessageToDict(part.metadata).get("mimeType") in (mime_type(uri), uri):
            found = found or MessageToDict(part.data)
    return found if isinstance(found, dict) else None
