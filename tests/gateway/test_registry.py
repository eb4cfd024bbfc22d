"""The registry over HTTP: what a caller sees, and that everything else does not exist for it."""

import json
from urllib.parse import urlencode

import pytest
from tests.support.gateway.calls import add_caller_token, caller_token, request_json
from tests.support.waiting import within

from fleetwright_api import names
from fleetwright_gateway.exchange.form import parse_form
from fleetwright_gateway.registry.live_view import Seen, differences

pytestmark = pytest.mark.process
URL = "https://agents.example.com/agents/team"


def listed(page: dict) -> list[str]:
    return [f"{each['namespace']}/{each['name']}" for each in page["items"]]


async def test_list_shows_an_agent_its_colleagues_only(api, client):
    page = await request_json(client, "/v1/agents", token=caller_token(api))
    assert listed(page) == ["team/callee"]
    assert (page["total"], page["nextPageToken"]) == (1, None)
    assert page["items"][0] == {
        "namespace": "team",
        "name": "callee",
        "url": f"{URL}/callee",
        "description": "Adds numbers.",
        "version": "0.1.0",
        "phase": "Pending",
        "skills": [{"id": "sum", "name": "Sum", "description": "Adds numbers.", "tags": ["math"]}],
        "outcomes": [],
        "weight": 1.0,
    }


@pytest.mark.parametrize(
    ("outcomes", "weights", "weight"),
    [
        pytest.param([{"tasks": 200, "succeeded": 180}], [0.9], 0.9, id="no price"),
        pytest.param([{"tasks": 10, "succeeded": 8, "costUSD": "8"}], [0.4], 0.4, id="a dollar for each success"),
        pytest.param([{"tasks": 3, "succeeded": 0, "costUSD": "1"}], [0.0], 0.0, id="no success"),
        pytest.param(
            [{"tasks": 2, "succeeded": 2, "costUSD": "2"}, {"skill": "sum", "tasks": 2, "succeeded": 0}],
            [0.5, 0.0],
            0.25,
            id="two skills, one without a price",
        ),
        pytest.param(
            [{"tasks": 2, "succeeded": 2, "costUSD": "2"}, {"skill": "sum", "tasks": 2, "succeeded": 2}],
            [0.5, 1.0],
            0.5,
            id="the price of one skill stands for both",
        ),
    ],
)
async def test_agents_show_outcomes_and_a_weight(api, client, outcomes, weights, weight):
    api.set_status(names.AGENT, "callee", {"activity": {"outcomes": outcomes}})
    found = await request_json(client, "/v1/agents/team/callee", token=caller_token(api))
    assert [each["weight"] for each in found["outcomes"]] == weights
    assert [each["skill"] for each in found["outcomes"]] == [each.get("skill", "") for each in outcomes]
    assert found["weight"] == weight


async def test_list_shows_a_person_the_namespaces_that_rbac_allows(api, client):
    api.add_agent("foreign", namespace="other")
    token = add_caller_token(api, "team")
    assert listed(await request_json(client, "/v1/agents", token=token)) == [
        "team/callee",
        "team/caller",
        "team/hidden",
    ]
    assert listed(await request_json(client, "/v1/agents?namespace=other", token=token)) == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("text=call", {"caller", "callee"}),
        ("text=NUMBERS", {"caller", "callee", "hidden"}),
        ("skill=sum", {"caller", "callee", "hidden"}),
        ("skill=other", set()),
        ("tag=math", {"caller", "callee", "hidden"}),
        ("phase=Asleep", {"hidden"}),
        ("text=hidden&phase=Asleep", {"hidden"}),
        ("text=hidden&phase=Running", set()),
    ],
)
async def test_list_filters_agents(api, client, query, found):
    api.set_status(names.AGENT, "hidden", {"phase": "Asleep"})
    page = await request_json(client, f"/v1/agents?{query}", token=add_caller_token(api, "team"))
    assert {each["name"] for each in page["items"]} == found
    assert page["total"] == len(found)


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/agents/team/callee/peers"])
async def test_best_matches_of_a_text_come_first(api, client, path):
    api.add_agent("zoe-waiter", spec={"fleet": {"reach": "Direct"}, "description": "Serves soup."})
    api.add_agent("alma", spec={"fleet": {"reach": "Direct"}, "description": "Knows every waiter."})
    page = await request_json(client, f"{path}?text=soup%20waiter", token=add_caller_token(api, "team"))
    assert listed(page) == ["team/zoe-waiter", "team/alma"]


async def test_list_returns_pages(api, client):
    token, names_found, following = add_caller_token(api, "team"), [], ""
    for _ in range(3):
        page = await request_json(client, f"/v1/agents?pageSize=1&pageToken={following}", token=token)
        assert page["total"] == 3
        names_found += listed(page)
        following = page["nextPageToken"]
    assert (names_found, following) == (["team/callee", "team/caller", "team/hidden"], None)


async def test_agent_shows_why_the_caller_may_call_it(api, client):
    detail = await request_json(client, "/v1/agents/team/callee", token=caller_token(api))
    assert (detail["name"], detail["reason"], detail["parent"]) == ("callee", "is a sibling", None)
    detail = await request_json(client, "/v1/agents/team/callee", token=add_caller_token(api, "team"))
    assert detail["reason"] == "may create agents/invoke in the agent's namespace"


@pytest.mark.parametrize(("reach", "shown"), [("Direct", "lead"), ("None", None)], ids=["a colleague", "a hidden one"])
async def test_agent_names_its_parent_only_to_callers_that_see_it(api, client, reach, shown):
    api.add_agent("lead", spec={"fleet": {"reach": reach}})
    token = api.add_running_agent("clerk", spec={"fleet": {"reach": "Direct", "parent": {"name": "lead"}}})
    detail = await request_json(client, "/v1/agents/team/clerk", token=token)
    assert detail["parent"] == shown


async def test_registry_refuses_unknown_parameters(api, client):
    error = await request_json(client, "/v1/agents?phases=Asleep", token=caller_token(api), status=400)
    assert error["detail"].startswith("There is no parameter 'phases'; the parameters are: namespace, pageSize, ")
    error = await request_json(client, "/v1/agents/team/callee?text=x", token=caller_token(api), status=400)
    assert error["detail"] == "There is no parameter 'text'; the parameters are: none."


async def test_card_is_the_gateways(api, client):
    card = await request_json(client, "/v1/agents/team/callee/card", token=caller_token(api))
    assert card["url"] == f"{URL}/callee/a2a"


async def test_peers_are_those_of_the_agent_that_the_caller_sees(api, client):
    page = await request_json(client, "/v1/agents/team/caller/peers", token=caller_token(api))
    assert listed(page) == ["team/callee"]
    assert {"namespace", "name", "description", "phase"} <= set(page["items"][0])
    page = await request_json(client, "/v1/agents/team/hidden/peers", token=caller_token(api, "hidden"))
    assert page["items"] == []


async def test_peers_have_pages_and_a_filter(api, client):
    for name in ("cook", "waiter"):
        api.add_agent(name, spec={"fleet": {"reach": "Direct"}, "description": f"The {name}."})
    path, token = "/v1/agents/team/caller/peers", caller_token(api)
    first = await request_json(client, f"{path}?pageSize=2", token=token)
    second = await request_json(client, f"{path}?pageSize=2&pageToken={first['nextPageToken']}", token=token)
    assert (listed(first), listed(second)) == (["team/callee", "team/cook"], ["team/waiter"])
    assert (first["total"], second["nextPageToken"]) == (3, None)
    found = await request_json(client, f"{path}?text=waiter", token=token)
    assert (listed(found), found["total"]) == (["team/waiter"], 1)


@pytest.mark.parametrize(
    ("successor", "status"),
    [
        pytest.param("second", 308, id="a successor that the caller may call"),
        pytest.param("hidden", 410, id="a successor that the caller may not call"),
        pytest.param("nobody", 410, id="no such successor"),
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/agents/team/{}",
        "/v1/agents/team/{}/card",
        "/v1/agents/team/{}/peers",
        "/agents/urn:air:agents.example.com:team:{}",
    ],
)
async def test_replaced_agent_redirects_everywhere(api, client, path, successor, status):
    api.add_running_agent("second", spec={"fleet": {"reach": "Direct"}})
    api.add_agent("callee", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": successor}}})
    token = caller_token(api)
    async with client.request("GET", path.format("callee"), token=token, allow_redirects=False) as answer:
        assert answer.status == status
        base = "https://agents.example.com"
        assert answer.headers.get("Location") == (f"{base}{path.format('second')}" if status == 308 else None)
        code = json.loads(await answer.read()).get("errorCode")
    assert code == ("NOT_FOUND" if path.startswith("/agents/") else None)


async def test_redirect_keeps_the_query(api, client):
    api.add_running_agent("second", spec={"fleet": {"reach": "Direct"}})
    api.add_agent("callee", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": "second"}}})
    path, token = "/v1/agents/team/callee/peers?text=x&pageSize=9", caller_token(api)
    async with client.request("GET", path, token=token, allow_redirects=False) as answer:
        assert answer.headers["Location"].endswith("/v1/agents/team/second/peers?text=x&pageSize=9")


async def test_replaced_agent_still_lists_its_own_peers(api, client):
    """It may have tasks to finish."""
    api.add_agent("caller", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": "callee"}}})
    page = await request_json(client, "/v1/agents/team/caller/peers", token=caller_token(api))
    assert listed(page) == ["team/callee"]


async def test_replaced_agent_is_hidden_in_the_way_of_a_missing_one(api, client):
    """The number of reviews, and so the time of the answer, does not tell that a hidden agent was replaced."""
    api.add_agent("old", namespace="elsewhere", spec={"fleet": {"forwardedTo": {"name": "new"}}})
    token = api.add_person("mallory")
    reviews = []
    for name in ("old", "missing"):
        before = len(api.access_reviews)
        asked = {"namespace": "elsewhere", "name": name}
        answer = await request_json(client, "/v1/check-access", token=token, json=asked)
        assert answer == {"allowed": False, "reason": None}
        reviews.append(len(api.access_reviews) - before)
    # The first question also asks about the whole namespace, and this answer is cached.
    assert reviews[0] >= reviews[1] > 0


async def test_replaced_agent_may_not_be_called(api, client):
    api.add_agent("callee", spec={"fleet": {"reach": "Direct", "forwardedTo": {"name": "caller"}}})
    asked = {"namespace": "team", "name": "callee"}
    async with client.request("POST", "/v1/check-access", token=caller_token(api), json=asked) as answer:
        assert await answer.json() == {"allowed": False, "reason": None}


@pytest.mark.parametrize(
    ("host", "base"),
    [
        pytest.param("agents.example.com", "https://agents.example.com", id="outside"),
        pytest.param("fleetwright-gateway.system", "http://fleetwright-gateway.system", id="the Service"),
        pytest.param(
            "fleetwright-gateway.system.svc.cluster.local:80", "http://fleetwright-gateway.system", id="its full name"
        ),
        pytest.param("evil.example.com", "https://agents.example.com", id="any other name"),
        pytest.param("fleetwright-gateway.system.evil.com", "https://agents.example.com", id="a similar name"),
    ],
)
async def test_addresses_are_those_by_which_the_caller_came(api, client, host, base):
    """The Host header chooses between the two configured addresses, and no other appears."""
    headers, token = {"Host": host}, caller_token(api)
    detail = await request_json(client, "/v1/agents/team/callee", token=token, headers=headers)
    card = await request_json(client, "/agents/team/callee/.well-known/agent-card.json", token=token, headers=headers)
    assert (detail["url"], card["url"]) == (f"{base}/agents/team/callee", f"{base}/agents/team/callee/a2a")


HIDDEN = [
    "/v1/agents/team/hidden",
    "/v1/agents/team/hidden/card",
    "/v1/agents/team/hidden/peers",
    "/v1/agents/team/nobody",
    "/v1/agents/Team/x%2Fy",
]


@pytest.mark.parametrize("path", HIDDEN)
async def test_hidden_agent_is_a_404_everywhere(api, client, path):
    async with client.request("GET", path, token=caller_token(api)) as answer:
        assert answer.headers["Content-Type"] == "application/problem+json"
        problem = await answer.json(content_type=None)
    assert (answer.status, problem["status"], problem["title"]) == (404, 404, "Not Found")
    assert set(problem) == {"type", "title", "status", "detail"}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("callee", {"allowed": True, "reason": "is a sibling"}),
        ("hidden", {"allowed": False, "reason": None}),
        ("nobody", {"allowed": False, "reason": None}),
    ],
)
async def test_check_access_answers_about_the_caller(api, client, name, answer):
    asked = {"namespace": "team", "name": name}
    assert await request_json(client, "/v1/check-access", token=caller_token(api), json=asked) == answer


async def test_check_access_refuses_questions_about_others(api, client):
    """A caller in the question would be an oracle about edges of others."""
    asked = {"namespace": "team", "name": "callee", "caller": "hidden"}
    problem = await request_json(client, "/v1/check-access", token=caller_token(api), json=asked, status=400)
    assert "caller" in problem["detail"]


PROTECTED = [
    "/v1/agents",
    "/v1/agents/team/callee",
    "/v1/events",
    "/agents",
    "/agents/urn%3Aair%3Aagents.example.com%3Ateam%3Acallee",
    "/nothing",
]


@pytest.mark.parametrize("path", PROTECTED)
async def test_registry_requires_a_credential(api, client, path):
    async with client.request("GET", path) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert api.reviews == []


async def test_registry_checks_the_credential_before_the_body(api, client):
    headers = {"Content-Type": "application/json"}
    assert await client.status("POST", "/v1/check-access", data=b"{", headers=headers) == 401
    token = caller_token(api)
    assert await client.status("POST", "/v1/check-access", token=token, data=b"{", headers=headers) == 400
    assert await client.status("POST", "/v1/check-access", token=token, data=b"x" * 70_000, headers=headers) == 413


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/agents?pageSize=0", "pageSize"),
        ("/v1/agents?pageSize=x", "pageSize"),
        ("/v1/agents?pageToken=zzz", "pageToken"),
    ],
)
async def test_registry_names_the_wrong_parameter(api, client, path, detail):
    problem = await request_json(client, path, token=caller_token(api), status=400)
    assert problem["detail"].startswith(detail)


async def test_registry_reports_an_unreachable_api_server(api, client):
    token = add_caller_token(api)
    await request_json(client, "/v1/agents", token=token)
    api.failing = True
    api.add_agent("fresh", namespace="fresh")
    async with client.request("GET", "/v1/agents", token=token) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "2")


def token_request(schema: dict) -> dict[str, str]:
    """Return a form as the documentation describes it."""
    fields = {name: schema["properties"][name] for name in schema["required"]}
    return {name: found.get("enum", ["team/callee"])[0] for name, found in fields.items()}


async def test_documentation_and_keys_are_public(api, client):
    assert await client.status("GET", "/docs") == 200
    schema = await request_json(client, "/openapi.json")
    assert {"/v1/agents", "/v1/check-access", "/v1/events", "/search"} <= set(schema["paths"])
    proxied = {path: set(found) - {"parameters"} for path, found in schema["paths"].items() if "{namespace}" in path}
    assert (
        proxied.items()
        >= {
            "/agents/{namespace}/{name}/a2a": {"post"},
            "/agents/{namespace}/{name}/.well-known/agent-card.json": {"get"},
            "/agents/{namespace}/{name}/{path}": {"get", "post", "delete"},
        }.items()
    )
    form = schema["paths"]["/oauth/token"]["post"]["requestBody"]["content"]["application/x-www-form-urlencoded"]
    assert set(form["schema"]["required"]) == {"grant_type", "subject_token", "subject_token_type", "audience"}
    assert parse_form(urlencode(token_request(form["schema"])).encode(), "application/x-www-form-urlencoded")
    keys = (await request_json(client, "/.well-known/jwks.json"))["keys"]
    assert len(keys) == 2
    assert not any("d" in key for key in keys)


async def test_events_report_what_the_caller_sees(api, client):
    async with client.request("GET", "/v1/events", token=caller_token(api)) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert await answer.content.readuntil(b"\n\n") == b": open\n\n"
        api.set_status(names.AGENT, "hidden", {"phase": "Running"})
        api.set_status(names.AGENT, "callee", {"phase": "Asleep"})

        async def following() -> tuple[str, dict]:
            while True:
                lines = (await answer.content.readuntil(b"\n\n")).decode().splitlines()
                if lines[0].startswith("event: "):
                    return lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))

        async with within("the events arrive"):
            assert await following() == ("asleep", {"namespace": "team", "name": "callee", "phase": "Asleep"})
            api.put({"kind": names.AGENT, "metadata": {"namespace": "team", "name": "callee"}, "spec": {"fleet": {}}})
            assert await following() == ("removed", {"namespace": "team", "name": "callee"})


async def test_events_refuse_unknown_parameters(api, client):
    async with client.request("GET", "/v1/events?namespace=team", token=caller_token(api)) as answer:
        assert answer.status == 400
        error = await answer.json()
    assert error["detail"] == "There is no parameter 'namespace'; the parameters are: none."


async def test_events_bound_the_streams_of_a_caller(api, client):
    token = caller_token(api)
    streams = [client.request("GET", "/v1/events", token=token) for _ in range(5)]
    opened = [await stream for stream in streams]
    for stream in opened:
        await stream.content.readuntil(b"\n\n")
    assert await client.status("GET", "/v1/events", token=token) == 429
    for stream in opened:
        stream.close()


def test_differences_name_each_change():
    def seen(phase: str, version: str = "1") -> Seen:
        return Seen(phase, {"version": version})

    before = {
        ("n", "a"): seen("Running"),
        ("n", "b"): seen("Asleep"),
        ("n", "c"): seen("Running"),
        ("n", "d"): seen("Running"),
        ("n", "e"): seen("Running"),
        ("n", "g"): seen("Running"),
    }
    after = {
        ("n", "a"): seen("Degraded"),
        ("n", "b"): seen("Running"),
        ("n", "c"): seen("Asleep", "2"),
        ("n", "d"): seen("Running"),
        ("n", "f"): seen("Pending"),
        ("n", "g"): seen("Blocked"),
    }
    assert differences(before, after) == [
        ("degraded", ("n", "a")),
        ("awake", ("n", "b")),
        ("asleep", ("n", "c")),
        ("card-changed", ("n", "c")),
        ("removed", ("n", "e")),
        ("offline", ("n", "f")),
        ("degraded", ("n", "g")),
    ]
