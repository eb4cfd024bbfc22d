"""Extension data: the agent reads it from every supported encoding."""

import pytest
from a2a.types.a2a_pb2 import Artifact, Message
from google.protobuf.json_format import MessageToDict, ParseDict

from fleetwright_a2a.extension_codec import attach, lift_parts, mime_type, read
from fleetwright_a2a.extensions import CALL_PATH, COST

PAYLOAD = {"costUsd": 0.25}
MIME = "application/vnd.protolabs.cost-v1+json"


@pytest.mark.parametrize(
    ("artifact", "found"),
    [
        pytest.param({"metadata": {COST: PAYLOAD}}, PAYLOAD, id="metadata under the URI"),
        pytest.param(
            {"parts": [{"data": PAYLOAD, "metadata": {"mimeType": MIME}, "mediaType": "application/json"}]},
            PAYLOAD,
            id="a data part of 1.0",
        ),
        pytest.param({"parts": [{"data": PAYLOAD, "metadata": {"mimeType": MIME}}]}, PAYLOAD, id="a data part of 0.3"),
        pytest.param({"parts": [{"data": PAYLOAD, "metadata": {"mimeType": COST}}]}, PAYLOAD, id="a data part by URI"),
        pytest.param({"parts": [{"data": PAYLOAD}]}, None, id="data that does not say what it is"),
        pytest.param({"metadata": {COST: "free"}}, None, id="what is not an object"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_extension_read_decodes_every_encoding(artifact, found):
    assert read(ParseDict(artifact, Artifact()), COST) == found


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        pytest.param("hitl-v1", "hitl-v1", id="a bare name"),
        pytest.param(COST, "cost-v1", id="a URI that ends with it"),
        pytest.param(CALL_PATH, "call-path-v1", id="a URI whose version is a step of its own"),
    ],
)
def test_mime_type_is_unique_per_extension(name, wanted):
    assert mime_type(name) == f"application/vnd.protolabs.{wanted}+json"


PATH = ["team/first"]


@pytest.mark.parametrize(
    ("said", "path", "parts"),
    [
        pytest.param({"metadata": {CALL_PATH: PATH}}, PATH, 1, id="metadata stays"),
        pytest.param({"parts": [{"data": PATH, "metadata": {"mimeType": CALL_PATH}}]}, PATH, 0, id="a part by URI"),
        pytest.param(
            {"parts": [{"data": {"value": PATH}, "metadata": {"mimeType": mime_type(CALL_PATH)}}]},
            PATH,
            0,
            id="a list within an object",
        ),
        pytest.param(
            {"metadata": {CALL_PATH: PATH}, "parts": [{"data": ["a/b"], "metadata": {"mimeType": CALL_PATH}}]},
            PATH,
            0,
            id="metadata counts before a part",
        ),
        pytest.param({"parts": [{"data": PATH, "metadata": {"mimeType": COST}}]}, None, 1, id="of another, nothing"),
        pytest.param({"parts": [{"text": "x", "metadata": {"mimeType": CALL_PATH}}]}, None, 1, id="a text is a text"),
    ],
)
def test_lift_parts_moves_extension_parts_into_metadata(said, path, parts):
    message = ParseDict({"parts": [{"text": "x"}]} | said, Message())
    lift = MessageToDict(lift_parts(message, {CALL_PATH}))
    assert lift.get("metadata", {}).get(CALL_PATH) == path
    assert len(lift.get("parts", ())) == parts


@pytest.mark.parametrize("as_part", [False, True])
def test_extension_attach_round_trips_through_read(as_part):
    artifact = Artifact()
    attach(artifact, COST, PAYLOAD, as_part=as_part)
    assert read(artifact, COST) == PAYLOAD
    assert list(artifact.extensions) == [COST]
    assert len(artifact.parts) == int(as_part)
