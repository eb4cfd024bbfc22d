"""The data of an extension is read from whichever wire it came on."""

import pytest
from a2a.types.a2a_pb2 import Artifact
from google.protobuf.json_format import ParseDict

from fleetwright_agent.extensions import COST
from fleetwright_agent.wires import attach, read

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
def test_every_wire_is_read(artifact, found):
    assert read(ParseDict(artifact, Artifact()), COST) == found


@pytest.mark.parametrize("as_part", [False, True])
def test_what_is_attached_is_read_again(as_part):
    artifact = Artifact()
    attach(artifact, COST, PAYLOAD, as_part=as_part)
    assert read(artifact, COST) == PAYLOAD
    assert list(artifact.extensions) == [COST]
    assert len(artifact.parts) == int(as_part)
