"""Selection of the dialect of a call, and the order of the checks that reject calls."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fleetwright_a2a.dialects.versions import dialect_of

VERSIONS = [
    pytest.param(None, "0.3", id="nothing stated means 0.3"),
    pytest.param("", "0.3", id="an empty header means the same"),
    pytest.param("0.1", "0.1", id="0.1 is itself"),
    pytest.param("0.2.5", "0.3", id="0.2 is spoken as 0.3"),
    pytest.param("0.3.0", "0.3", id="patches do not matter in 0.3"),
    pytest.param("1.0", "1.0", id="1.0 is itself"),
    pytest.param("1.0.1", "1.0", id="patches do not matter in 1.0"),
    pytest.param("1.1", None, id="another minor version is not spoken"),
    pytest.param("1.7.2", None, id="a patch of another minor version is not spoken"),
    pytest.param("0.4", None, id="a minor version that never was is not spoken"),
    pytest.param("0.0", None, id="0.0 is not spoken"),
    pytest.param("01.0", None, id="a leading zero is no version"),
    pytest.param("١.0", None, id="digits of another script are no version"),
    pytest.param("2.0", None, id="another major version is not spoken"),
    pytest.param("one", None, id="a word is no version"),
    pytest.param("1.0, 0.3", None, id="two versions are none"),
]


@pytest.mark.parametrize(("header", "dialect"), VERSIONS)
def test_dialect_of_selects_by_version_header(header: str | None, dialect: str | None) -> None:
    assert dialect_of(header) == dialect


V10 = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
V03 = {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}}
V01 = {"id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}}
CALLS = [
    pytest.param("SendMessage", V10, "1.0", None, id="1.0 with its version"),
    pytest.param("SendMessage", V10, None, -32009, id="1.0 without a version"),
    pytest.param("SendMessage", V10, "0.3", -32009, id="1.0 with an older version"),
    pytest.param("SendMessage", V10, "1.0.1", None, id="1.0 with a patch"),
    pytest.param("SendMessage", V10, "1.1", -32009, id="1.0 with another minor version"),
    pytest.param("message/send", V03, "0.4", -32009, id="0.3 with another minor version"),
    pytest.param("SendMessage", {}, None, -32602, id="1.0 without a version and without params: params first"),
    pytest.param("message/send", V03, None, None, id="0.3 without a version"),
    pytest.param("message/send", V03, "0.3.0", None, id="0.3 with its version"),
    pytest.param("message/send", V03, "0.2.6", None, id="0.2"),
    pytest.param("message/send", V03, "1.0", -32009, id="0.3 with a later version"),
    pytest.param("message/send", V10, "1.0", -32602, id="0.3 with params of 1.0: params first"),
    pytest.param("tasks/send", V01, None, None, id="0.1 without a version"),
    pytest.param("tasks/send", V01, "0.1", None, id="0.1 with its version"),
    pytest.param("tasks/send", V01, "1.0", -32009, id="0.1 with a later version"),
    pytest.param("tasks/nothing", {}, "9.9", -32601, id="no method at all: methods before versions"),
]


@pytest.mark.parametrize(("method", "params", "version", "code"), CALLS)
@pytest.mark.parametrize("path", ["/a2a", "/a2a/"])
async def test_rpc_checks_reject_in_a_fixed_order(
    open_door: Callable[..., Any], raw: Any, method: str, params: Any, version: str | None, code: int | None, path: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"A2A-Version": version} if version else {}
        answer = (await caller.http.post(path, json=body, headers=headers)).json()
    assert answer.get("error", {}).get("code") == code, answer


PARTS = [
    ({"kind": "text", "text": "x"}, None),
    ({"kind": "text", "type": "unsupported_type", "text": "x"}, None),
    ({"text": "x"}, None),
    ({"type": "text", "text": "x"}, None),
    ({"type": "unsupported_type", "text": "x"}, "message.parts.0.kind"),
    ({"type": "unsupported_type"}, "message.parts.0.kind"),
    ({"type": "file", "text": "x"}, "message.parts.0.kind"),
    ({"type": None, "text": "x"}, "message.parts.0.kind"),
    ({"text": "x", "data": {"a": 1}}, "message.parts.0.kind"),
    ({}, "message.parts.0.kind"),
    ({"kind": "unsupported_type", "text": "x"}, "message.parts.0"),
]


@pytest.mark.parametrize(("part", "place"), PARTS)
@pytest.mark.parametrize("method", ["message/send", "message/stream"])
async def test_v03_part_without_a_clear_kind_is_refused(
    open_door: Callable[..., Any], raw: Any, part: Any, place: str | None, method: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        message = {"messageId": "m", "role": "user", "parts": [part]}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
        answer = await caller.http.post("/a2a", json=body)
    if place is None:
        assert '"error"' not in answer.text
    else:
        (document,) = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        error = json.loads(document)["error"]
        assert (error["code"], place in error["message"]) == (-32602, True), error


@pytest.mark.parametrize(("part", "place"), [row for row in PARTS if "kind" not in row[0] and row[0].get("type")])
@pytest.mark.parametrize("method", ["message:send", "message:stream"])
@pytest.mark.parametrize("member", ["content", "parts"])
async def test_v03_part_of_another_type_is_refused_over_http_json(
    open_door: Callable[..., Any], raw: Any, part: Any, place: str | None, method: str, member: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        message = {"messageId": "m", "role": "ROLE_USER", member: [part]}
        answer = await caller.http.post(f"/a2a/v1/{method}", json={"message": message})
    if place is None:
        assert answer.status_code == (200 if member == "content" else 400), answer.text
    else:
        assert (answer.status_code, f"check message.{member}.0.type" in answer.text) == (400, True), answer.text


REST_CALLS = [
    ("/a2a/message:send", V10, "1.0.1", 200),
    ("/a2a/message:send", V10, "1.1", 400),
    ("/a2a/v1/message:send", V03, "0.4", 400),
]


@pytest.mark.parametrize(("path", "params", "version", "status"), REST_CALLS)
async def test_rest_refuses_another_minor_version(
    open_door: Callable[..., Any], raw: Any, path: str, params: Any, version: str, status: int
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        answer = await caller.http.post(path, json=params, headers={"A2A-Version": version})
    assert answer.status_code == status, answer.text
    if status == 400:
        error = answer.json()["error"]
        assert error["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"
        assert error["message"] == "The A2A-Version header names an unknown version; use one of 0.1, 0.2, 0.3, 1.0"


@pytest.mark.parametrize(
    ("method", "params", "version"),
    [
        pytest.param("message/send", V03, None, id="0.3"),
        pytest.param("tasks/send", V01, None, id="0.1"),
    ],
)
async def test_disabled_dialect_has_no_methods(
    open_door: Callable[..., Any], mounted: Any, documents: Any, raw: Any, method: str, params: Any, version: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(dialects=["1.0"]))
    door = await open_door()
    assert (await door.say("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"
    async with raw(door) as caller:
        assert (await caller.call(method, params))["error"]["code"] == -32601
        rest = await caller.http.get("/a2a/v1/tasks/x")
    assert (rest.status_code, rest.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
