"""The contract of Agentic Resource Discovery (ARD) 0.91: formats, errors and visibility."""

from urllib.parse import quote

import pytest
from tests.support.gateway.calls import add_caller_token, caller_token, request_json
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.served_gateway import Client

pytestmark = pytest.mark.process
CALLEE = "urn:air:agents.example.com:team:callee"


def asked(text: str = "numbers", **more: object) -> dict:
    query = {"text": text, **({"filter": more.pop("filter")} if "filter" in more else {})}
    return {"query": query, **more}


async def found(client: Client, api: FleetApi, body: dict) -> list[dict]:
    answer = await request_json(client, "/search", token=add_caller_token(api, "team"), json=body)
    assert answer["referrals"] == []
    results: list[dict] = answer["results"]
    return results


async def test_manifest_names_the_registry(client):
    (entry,) = (await request_json(client, "/.well-known/ard.json"))["entries"]
    assert (entry["type"], entry["url"]) == ("application/ai-registry+json", "https://agents.example.com")
    assert entry["identifier"] == "urn:air:agents.example.com:registry"
    assert 2 <= len(entry["representativeQueries"]) <= 5


async def test_search_returns_entries_with_score_and_source(api, client):
    (entry,) = (await request_json(client, "/search", token=caller_token(api), json=asked()))["results"]
    assert entry["identifier"] == CALLEE
    assert isinstance(entry["score"], int)
    assert 0 < entry["score"] <= 100
    assert entry["source"] == "https://agents.example.com"
    assert (entry["displayName"], entry["type"]) == ("callee", "application/a2a-agent-card+json")
    assert entry["url"] == "https://agents.example.com/agents/team/callee/.well-known/agent-card.json"
    assert entry["metadata"] == {"namespace": "team", "phase": "Pending", "skills": ["sum"]}
    assert ("data" in entry, entry["tags"]) == (False, ["math"])
    assert 2 <= len(entry["representativeQueries"]) <= 5


async def test_search_ranks_a_name_above_a_description(api, client):
    results = await found(client, api, asked("callee numbers"))
    assert results[0]["identifier"] == CALLEE
    assert [each["score"] for each in results] == sorted((each["score"] for each in results), reverse=True)


@pytest.mark.parametrize(
    ("chosen", "number"),
    [
        ({"type": "application/a2a-agent-card+json"}, 3),
        ({"type": ["application/mcp-server-card+json", "application/a2a-agent-card+json"]}, 3),
        ({"type": ["application/mcp-server-card+json"]}, 0),
        ({"publisher": "agents.example.com"}, 3),
        ({"publisher": "other.example.com"}, 0),
        ({"tags": ["math", "other"]}, 3),
        ({"metadata.namespace": "team", "displayName": "callee"}, 1),
        ({"metadata.skills": "sum"}, 3),
        ({"metadata.unknown": "x"}, 0),
    ],
)
async def test_search_filters_with_or_within_and_across_keys(api, client, chosen, number):
    assert len(await found(client, api, asked(filter=chosen))) == number


async def test_search_returns_pages(api, client):
    token = add_caller_token(api, "team")
    first = await request_json(client, "/search", token=token, json=asked(pageSize=2))
    second = await request_json(client, "/search", token=token, json=asked(pageSize=2, pageToken=first["pageToken"]))
    assert (len(first["results"]), len(second["results"]), "pageToken" in second) == (2, 1, False)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": {}},
        {"query": {"text": ""}},
        {"query": {"text": 5}},
        asked(pageSize=0),
        asked(pageSize=101),
        asked(pageSize="10"),
        asked(pageToken="?"),
        asked(federation="all"),
        asked(filter={"type": {"a": 1}}),
        [],
    ],
    ids=str,
)
async def test_search_refuses_invalid_requests(api, client, body):
    error = await request_json(client, "/search", token=caller_token(api), json=body, status=400)
    assert set(error) == {"errorCode", "message"}
    assert error["errorCode"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("body", "message"), [({}, "query: Field required"), ({"query": {}}, "query.text: Field required")], ids=str
)
async def test_search_names_the_wrong_field(api, client, body, message):
    error = await request_json(client, "/search", token=caller_token(api), json=body, status=400)
    assert error["message"] == message


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"filter": {"type": "x"}}, "the request: there is no member 'filter' here; write filter in query"),
        ({"Filters": {}}, "the request: there is no member 'Filters' here; write filter in query"),
        ({"page-size": 1}, "the request: there is no member 'page-size' here; write pageSize beside query"),
        (
            {"query": {"text": "a", "pageSize": 1}},
            "query: there is no member 'pageSize' here; write pageSize beside query",
        ),
    ],
    ids=str,
)
async def test_search_refuses_members_at_the_wrong_place(api, client, more, message):
    error = await request_json(client, "/search", token=caller_token(api), json={**asked(), **more}, status=400)
    assert error["message"] == message


async def test_search_ignores_unknown_members(api, client):
    body = {**asked(federation="auto"), "extra": 1}
    body["query"]["@context"] = "https://example.com"
    assert len(await found(client, api, body)) == 3


async def test_lookup_returns_the_entry_without_score(api, client):
    entry = await request_json(client, f"/agents/{quote(CALLEE, safe='')}", token=caller_token(api))
    assert entry["identifier"] == CALLEE
    assert not {"score", "source"} & set(entry)


@pytest.mark.parametrize(
    ("identifier", "status", "code"),
    [
        pytest.param("urn:air:agents.example.com:team:nobody", 404, "NOT_FOUND", id="unknown"),
        pytest.param("urn:air:agents.example.com:team:hidden", 404, "NOT_FOUND", id="hidden"),
        pytest.param("urn:air:other.example.com:team:callee", 404, "NOT_FOUND", id="another publisher"),
        pytest.param("urn:air:agents.example.com:callee", 404, "NOT_FOUND", id="no namespace"),
        pytest.param("urn:ietf:callee", 400, "INVALID_ARGUMENT", id="another kind of name"),
        pytest.param("callee", 400, "INVALID_ARGUMENT", id="no URN"),
        pytest.param(quote(CALLEE, safe=""), 400, "INVALID_ARGUMENT", id="encoded twice"),
        pytest.param(CALLEE.upper(), 400, "INVALID_ARGUMENT", id="in upper case"),
    ],
)
async def test_lookup_refuses_other_identifiers(api, client, identifier, status, code):
    error = await request_json(client, f"/agents/{quote(identifier, safe='')}", token=caller_token(api), status=status)
    assert error["errorCode"] == code


async def test_list_shows_only_what_the_caller_may_call(api, client):
    page = await request_json(client, "/agents", token=caller_token(api))
    assert ([each["identifier"] for each in page["items"]], page["total"]) == ([CALLEE], 1)
    page = await request_json(client, "/agents?pageSize=2", token=add_caller_token(api, "team"))
    assert (len(page["items"]), page["total"], "pageToken" in page) == (2, 3, True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/agents?filter=team", "There is no parameter 'filter'; the parameters are: pageSize, pageToken."),
        ("/agents?page_size=2", "There is no parameter 'page_size'; the parameters are: pageSize, pageToken."),
        ("/agents?pageSize=2&Filter=", "There is no parameter 'Filter'; the parameters are: pageSize, pageToken."),
        (f"/agents/{quote(CALLEE, safe='')}?filter=x", "There is no parameter 'filter'; the parameters are: none."),
        ("/agents?pageSize=2&pageSize=3", "The parameter 'pageSize' is given more than once; give it once."),
    ],
)
async def test_unknown_parameters_are_refused(api, client, path, message):
    error = await request_json(client, path, token=caller_token(api), status=400)
    assert error == {"errorCode": "INVALID_ARGUMENT", "message": message}


async def test_search_refuses_parameters_of_the_query(api, client):
    error = await request_json(client, "/search?filter=x", token=caller_token(api), json=asked(), status=400)
    assert error["message"] == "There is no parameter 'filter'; the parameters are: none."


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "/explore", 501, "UNIMPLEMENTED"),
        ("GET", "/search", 405, "INVALID_ARGUMENT"),
        ("DELETE", "/agents", 405, "INVALID_ARGUMENT"),
    ],
)
async def test_other_requests_have_the_errors_of_ard(api, client, method, path, status, code):
    async with client.request(method, path, token=caller_token(api)) as answer:
        assert (answer.status, (await answer.json())["errorCode"]) == (status, code)


async def test_search_without_a_credential_has_the_error_of_ard(client):
    error = await request_json(client, "/search", json=asked(), status=401)
    assert error["errorCode"] == "UNAUTHENTICATED"
