"""The offline model replays recorded responses of providers, and refuses files that are none."""

import httpx
import pytest
from click.testing import CliRunner

from fleetwright_cli.__main__ import main
from fleetwright_cli.offline.model import OfflineModel
from fleetwright_cli.offline.recording import InvalidRecording, Recording, load_recording

_STREAM = "data: {}\n\ndata: [DONE]\n\n"
_HEADERS = {"content-type": "text/event-stream", "retry-after": "7", "content-length": "1"}
_ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hello."}]}


def client_of(**about):
    return httpx.AsyncClient(transport=httpx.ASGITransport(OfflineModel(**about).app()), base_url="http://m")


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/openai/v1/chat/completions", "/v1beta/models/m:generateContent"]
)
async def test_recording_is_sent_at_every_path(path):
    async with client_of(recording=Recording(429, _HEADERS, _STREAM, is_cut=False)) as client:
        answer = await client.post(path, json=_ASKED)
    assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (429, _STREAM, "7")


async def test_rules_answer_after_the_replays():
    recording = Recording(500, {}, "broken", is_cut=False)
    async with client_of(recording=recording, replays=2) as client:
        answers = [await client.post("/v1/chat/completions", json=_ASKED) for _ in range(3)]
        other = await client.post("/openai/v1/chat/completions", json=_ASKED)
    assert [answer.status_code for answer in answers] == [500, 500, 200]
    assert other.status_code == 404


async def test_recording_that_is_cut_breaks_the_connection():
    async with client_of(recording=Recording(200, {}, "data: 1\n\n", is_cut=True)) as client:
        with pytest.raises(ConnectionResetError):
            await client.post("/v1/chat/completions", json=_ASKED)


async def test_recording_needs_the_key():
    async with client_of(key="k", recording=Recording(200, {}, "x", is_cut=False)) as client:
        refused = await client.post("/v1/chat/completions", json=_ASKED)
    assert refused.status_code == 401


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("answer: [", "is not YAML", id="no YAML"),
        pytest.param("- 1", "answer must be an object", id="a list"),
        pytest.param("answer: {body: 1}", "answer.body must be a text", id="a body that is a number"),
        pytest.param("answer: {status: 99, body: x}", "answer.status must be a number from 200 to 599", id="a status"),
        pytest.param("answer: {headers: x, body: x}", "answer.headers must be an object", id="headers"),
    ],
)
def test_file_that_is_no_recording_is_refused_with_the_field(tmp_path, text, problem):
    file = tmp_path / "recording.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRecording, match=problem):
        load_recording(file)
    told = CliRunner().invoke(main, ["offline-model", "--replay", str(file)])
    assert told.exit_code == 1
    assert problem in told.output


def test_missing_recording_is_reported(tmp_path):
    told = CliRunner().invoke(main, ["offline-model", "--replay", str(tmp_path / "gone.yaml")])
    assert told.exit_code == 1
    assert "gone.yaml: No such file or directory" in told.output
    assert "--replays needs --replay" in CliRunner().invoke(main, ["offline-model", "--replays", "1"]).output
